"""Does a device get all of a long recorded answer in time, and little of what nobody reads yet?"""

import asyncio
import threading
from pathlib import Path

import pytest

from serving.cluster.sources.recorded_source import AHEAD, PAGE, RecordedSource
from serving.cluster.streams import sockets
from serving.cluster.streams.rpc import RpcServer
from serving.cluster.streams.sockets import Address
from serving.device.token_buffer import TokenBuffer
from serving.flight import Flight, take, unseen
from serving.recordings.answers import STOP, Answer
from serving.types import Chunk, Request

TOKENS, STEP_TOKENS = 32_000, 5
PATIENCE_S = 20.0


class Device:
    """A device's buffers, behind the call by which tokens come, and what it has been sent in all."""

    def __init__(self, folder: Path) -> None:
        self.tokens, self.sent = TokenBuffer(), list[int]()
        server = RpcServer([self.push], folder, "device", False)
        self.address: Address = server.address
        threading.Thread(target=server.run, args=[lambda dropped: None], daemon=True).start()

    def push(self, source: int, chunks: list[Chunk]) -> None:
        self.tokens.push(chunks)
        self.sent += [chunk.first for chunk in chunks]

    async def has(self, count: int) -> None:
        """Wait until so many tokens were sent here."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.sent) < count:
                await asyncio.sleep(0.001)


@pytest.fixture
def device(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Device:
    monkeypatch.setattr(sockets, "this_node", lambda: "here")
    return Device(tmp_path_factory.mktemp("r").absolute() / "run")


class Stream:
    """A request for a long answer on a device, whose tokens are their places in it."""

    def __init__(self, device: Device) -> None:
        request = Request("a", 0.0, 8, TOKENS)
        answer = Answer(request, (list(range(TOKENS)), None), [range(TOKENS)], (STOP, None))
        self.flight = Flight(None, request, device=0, sent_to=(0, 0), recorded=answer)
        self.source = RecordedSource({0: device.address})
        self._device = device

    def begin(self, position: int) -> None:
        """Have the device begin at a position, as it does when it is mended."""
        self._device.tokens.open("a", position)
        self.source.send(self.flight, position)

    def step(self) -> int:
        """Release the tokens of a step that are there, tell of them, and return how many were owed for it."""
        chunks, owed = self._device.tokens.take({"a": STEP_TOKENS})
        self.release(chunks)
        return owed

    def release(self, chunks: list[Chunk]) -> None:
        """Have the client get the chunks of a release."""
        news = unseen({"a": self.flight}, chunks)
        take(0, news, 1.0)
        self.source.follow(news)


def test_all_of_a_long_answer_comes_in_time_and_not_long_before(device: Device) -> None:
    async def main() -> None:
        stream = Stream(device)
        stream.begin(0)
        while stream.flight.made < TOKENS:
            made = stream.flight.made
            # A device that is several steps ahead of what its client has been told of.
            await device.has(min(made + PAGE // 2, TOKENS))
            assert len(device.sent) - made <= AHEAD + PAGE
            assert stream.step() == 0
        assert stream.flight.tokens == device.sent == list(range(TOKENS))
        stream.source.close()

    asyncio.run(main())


def test_a_device_far_ahead_of_its_client_has_enough_for_a_tenth_of_a_second_at_a_high_speed(device: Device) -> None:
    async def main() -> None:
        stream = Stream(device)
        stream.begin(0)
        for _ in range(100):
            await device.has(stream.flight.made + PAGE // 2)
            stream.step()
        await device.has(stream.flight.made + AHEAD)
        # Its client hears of all of these at once.
        stream.release([Chunk("a", stream.flight.made, list(range(stream.flight.made, len(device.sent))))])
        await device.has(stream.flight.made + AHEAD)
        stream.source.close()

    asyncio.run(main())


def test_a_request_that_waits_for_its_batch_or_is_done_has_no_more_than_a_page_sent(device: Device) -> None:
    async def main() -> None:
        stream = Stream(device)
        stream.begin(0)
        await device.has(PAGE)
        await asyncio.sleep(0.1)
        assert len(device.sent) == PAGE
        stream.source.drop(["a"])
        stream.step()
        await asyncio.sleep(0.1)
        assert len(device.sent) == PAGE
        stream.source.close()

    asyncio.run(main())


def test_one_that_begins_again_goes_on_from_there_and_is_sent_nothing_twice(device: Device) -> None:
    async def main() -> None:
        stream = Stream(device)
        stream.begin(0)
        while stream.flight.made < 3 * PAGE:
            await device.has(min(stream.flight.made + PAGE // 2, TOKENS))
            stream.step()
        # It dies; the news of tokens that its client had before come while it is mended.
        before = stream.flight.made
        late, _ = device.tokens.take({"a": STEP_TOKENS})
        await asyncio.sleep(0.1)
        device.sent.clear()
        stream.flight.sent_to = (0, 1)
        stream.begin(before)
        stream.release(late)
        while stream.flight.made < TOKENS:
            await device.has(min(stream.flight.made - before + PAGE // 2, TOKENS - before))
            assert stream.step() == 0
        assert stream.flight.tokens == list(range(TOKENS)) and device.sent == list(range(before, TOKENS))
        stream.source.close()

    asyncio.run(main())


def test_what_was_due_on_a_device_is_not_sent_to_the_next_one(device: Device) -> None:
    async def main() -> None:
        stream = Stream(device)
        stream.begin(0)
        await device.has(PAGE)
        stream.flight.sent_to = None
        stream.step()
        await asyncio.sleep(0.1)
        assert len(device.sent) == PAGE
        stream.source.close()

    asyncio.run(main())


def test_an_answer_that_begins_pages_behind_its_client_goes_on(device: Device) -> None:
    """A device that was mended begins where its last release was seen, and what it sent before may come late."""

    async def main() -> None:
        stream = Stream(device)
        stream.release([Chunk("a", 0, list(range(PAGE + 188)))])
        stream.begin(0)
        await device.has(stream.flight.made + PAGE // 2)
        assert device.sent == list(range(len(device.sent)))
        stream.source.close()

    asyncio.run(main())
