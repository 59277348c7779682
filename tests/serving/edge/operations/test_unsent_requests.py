"""Is a request that is aborted before it is in flight never sent, and its client's own going away not swallowed?"""

import asyncio

import pytest

from serving.edge.operations.unsent_requests import UnsentRequests


class Sending:
    """The sending of a request, which waits for a gate."""

    def __init__(self) -> None:
        self.gate, self.sent = asyncio.Event(), False

    async def __call__(self) -> None:
        await self.gate.wait()
        self.sent = True


@pytest.mark.parametrize("gate_opens", [False, True])
def test_an_abort_ends_the_wait_at_once_even_as_it_is_over(gate_opens: bool) -> None:
    async def play() -> None:
        unsent, sending = UnsentRequests(), Sending()
        task = asyncio.create_task(unsent.send("a", sending))
        await asyncio.sleep(0)
        if gate_opens:
            sending.gate.set()
        unsent.abort(["a", "another"])
        unsent.abort(["a"])
        async with asyncio.timeout(10):
            assert await task is None
        assert not sending.sent and not task.cancelling() and not unsent._tasks

    asyncio.run(play())


def test_one_that_is_aborted_while_another_choice_is_sent_is_not_sent() -> None:
    async def play() -> None:
        unsent, wanted = UnsentRequests(), {"a", "b"}
        unsent.is_wanted = wanted.__contains__
        choices = {id: Sending() for id in sorted(wanted)}

        async def send() -> None:
            for id, sending in choices.items():
                await unsent.send(id, sending)

        task = asyncio.create_task(send())
        await asyncio.sleep(0)
        for sending in choices.values():
            sending.gate.set()
        wanted.clear()
        unsent.abort(choices)
        await task
        assert not any(sending.sent for sending in choices.values())

    asyncio.run(play())


@pytest.mark.parametrize("aborted", [False, True])
def test_a_client_that_goes_away_cancels_its_task_also_where_its_request_is_aborted(aborted: bool) -> None:
    async def play() -> None:
        unsent, sending = UnsentRequests(), Sending()
        task = asyncio.create_task(unsent.send("a", sending))
        await asyncio.sleep(0)
        if aborted:
            unsent.abort(["a"])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not sending.sent and not unsent._tasks

    asyncio.run(play())


def test_what_fails_and_what_is_sent_is_forgotten() -> None:
    async def fail() -> None:
        raise ValueError("no")

    async def play() -> None:
        unsent, sending = UnsentRequests(), Sending()
        sending.gate.set()
        await unsent.send("a", sending)
        with pytest.raises(ValueError, match="no"):
            await unsent.send("b", fail)
        unsent.abort(["a", "b"])
        await asyncio.sleep(0)
        assert sending.sent

    asyncio.run(play())
