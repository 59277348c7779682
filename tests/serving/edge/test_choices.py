"""Are several choices of one request bounded, described, forecast and ended as a request of one is?"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, NamedTuple

import pytest
from vllm import SamplingParams

from serving.edge import async_llm
from serving.edge.refusals import GivenUp
from serving.flight import Flight
from serving.scenario.scenario import Scenario
from tests.serving.edge.test_cancels import emulation

pytestmark = pytest.mark.alone

CONTEXT, TOKENS_PER_MIN, PATIENCE_S = 512, 60_000, 20.0


class Emulated(NamedTuple):
    """An engine and its core, and the loop that they run in."""

    runner: asyncio.Runner
    engine: Any
    core: Any

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the loop, as a task with a context of its own."""

        async def apart() -> None:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.create_task(work)
                await holds(lambda: not self.core.flights)

        self.runner.run(apart())

    @contextlib.asynccontextmanager
    async def asked(self, n: int, **params: Any) -> AsyncIterator[list[int]]:
        """A request for `n` choices whose first token is there, by its prompt; its client leaves at the end."""
        self.engine.stamp()
        prompt = self.engine.renderer.tokenizer.encode("Tell me about caches.")
        asked = SamplingParams(n=n, seed=1, ignore_eos=True, **params)
        outputs = self.engine.generate({"type": "token", "prompt_token_ids": prompt}, asked, f"asks for {n}")
        async with contextlib.aclosing(outputs):
            await anext(outputs)
            yield prompt


@pytest.fixture(scope="module")
def emulated() -> Iterator[Emulated]:
    scenario = Scenario(
        token_model="foreserve-tiny",
        batching="topic-aware",
        max_model_len=CONTEXT,
        key_tokens_per_min=TOKENS_PER_MIN,
        http_port=0,
        grpc_port=0,
    )
    with asyncio.Runner() as runner:
        context = emulation(scenario)
        engine, core = runner.run(context.__aenter__())
        yield Emulated(runner, engine, core)
        runner.run(context.__aexit__(None, None, None))


async def holds(there: Callable[[], object]) -> None:
    while not there():
        await asyncio.sleep(0.01)


def test_they_end_where_the_context_does_and_refund_no_more_than_was_charged(emulated: Emulated) -> None:
    core = emulated.core

    async def play() -> None:
        bucket, began_s = core.admission.rules.limits_of("").tokens, core.clock.now()
        bucket.take(TOKENS_PER_MIN / 2, began_s)
        before = bucket.level(began_s)
        async with emulated.asked(2, max_tokens=2**31 - 1) as prompt:
            assert [flight.request.max_tokens for flight in core.flights] == [CONTEXT - len(prompt)] * 2
        await holds(lambda: not core.flights)
        ended_s = core.clock.now()
        assert bucket.level(ended_s) <= before + bucket.per_s * (ended_s - began_s) + 1e-6

    emulated.run(play())


def test_one_that_is_on_its_way_when_another_fails_is_never_served(
    emulated: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, dispatcher = emulated.core, emulated.core._dispatcher
    submit = dispatcher.submit

    async def pause_after(flight: Flight) -> None:
        await submit(flight)
        core.gate.close()

    async def ask() -> None:
        async with emulated.asked(2, max_tokens=50):
            pytest.fail("The first of them has failed.")

    async def play() -> None:
        asking = asyncio.create_task(ask())
        await holds(lambda: core.flights and core.gate.closed)
        (flight,) = core.flights
        dispatcher._refuse(flight, "There is no device for this.")
        with pytest.raises(GivenUp, match="no device"):
            await asking
        core.gate.open()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not core.flights and not core.set_aside

    monkeypatch.setattr(dispatcher, "submit", pause_after)
    emulated.run(play())


def test_their_prompt_is_classified_and_hashed_once(emulated: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    core, asked = emulated.core, list[str]()
    topic_of, empty = core._topics.of, core._prefixes.empty

    def note(what: str, do: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*said: Any) -> Any:
            asked.append(what)
            return do(*said)

        return noting

    async def play() -> None:
        async with emulated.asked(4, max_tokens=50):
            assert sorted(asked) == ["blocks", "topic"]
            requests = [flight.request for flight in core.flights]
            assert len(requests) == 4 and len({request.topic for request in requests}) == 1 and requests[0].topic
            assert len({request.seed for request in requests}) == 4

    monkeypatch.setattr(core._topics, "of", note("topic", topic_of))
    monkeypatch.setattr(core._prefixes, "empty", note("blocks", empty))
    emulated.run(play())


def test_what_they_ask_for_is_checked_once(emulated: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = list[str]()
    check = async_llm.check_request

    def note(id: str, *said: Any) -> None:
        checked.append(id)
        check(id, *said)

    async def play() -> None:
        async with emulated.asked(2, max_tokens=50):
            assert checked == ["asks for 2"]

    monkeypatch.setattr(async_llm, "check_request", note)
    emulated.run(play())


def test_one_whose_topic_is_asked_for_is_forecast(emulated: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    core, topic_of, seen = emulated.core, emulated.core._topics.of, list[tuple[int, int]]()
    forecast = core.admission.rules.forecast

    async def asked(tokens: list[int]) -> str:
        seen.append((core.set_aside, len(forecast._at)))
        return str(await topic_of(tokens))

    async def play() -> None:
        assert not forecast._at
        async with emulated.asked(2, max_tokens=50):
            assert seen == [(2, 1)] and core.set_aside == 0 and len(forecast._at) == 2

    monkeypatch.setattr(core._topics, "of", asked)
    emulated.run(play())
