"""Does a streamed response that fails end with an event that says so, and is its first turn begun before it?"""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from serving.api.streams.response_stream import judge_responses
from serving.edge.refusals import ENDING, GivenUp, Invalid


class Serving:
    """As much of vLLM's server of responses as is asked for."""

    def __init__(self, turns: list[Any]) -> None:
        self.begun: list[str] = []
        self._turns = turns
        self.engine_client = SimpleNamespace(generate=self._begin, name="engine")

    def _begin(self, engine_input: Any, params: Any, request_id: str, **_: Any) -> Any:
        self.begun.append(request_id)
        turn = self._turns[len(self.begun) - 1]
        if isinstance(turn, Invalid):
            raise turn
        return turn

    async def _generate_with_builtin_tools(
        self, request_id: str, engine_input: Any, sampling_params: Any, context: Any, tok_params: Any, **named: Any
    ) -> AsyncIterator[Any]:
        assert self.engine_client.name == "engine"
        for number in range(len(self._turns)):
            yield self.engine_client.generate(engine_input, sampling_params, f"{request_id}_{number}", **named)

    async def responses_stream_generator(self, turns: AsyncIterator[Any]) -> AsyncIterator[Any]:
        yield "created"
        async for turn in turns:
            if isinstance(turn, GivenUp):
                raise turn
            yield turn


def judged(*turns: Any) -> Any:
    serving = Serving(list(turns))
    judge_responses(serving)
    return serving


def begin(serving: Any) -> Any:
    return serving._generate_with_builtin_tools(
        request_id="r", engine_input=[5], sampling_params=None, context=None, tok_params=None, priority=1
    )


async def events_of(serving: Any, turns: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in serving.responses_stream_generator(turns)]


def test_the_first_turn_is_begun_at_once_and_the_others_in_their_time() -> None:
    serving = judged("one", "two")
    turns = begin(serving)
    assert serving.begun == ["r_0"]
    assert asyncio.run(events_of(serving, turns)) == ["created", "one", "two"]
    assert serving.begun == ["r_0", "r_1"]


def test_what_is_refused_is_refused_before_there_is_a_stream() -> None:
    with pytest.raises(Invalid, match="No"):
        begin(judged(Invalid("No.", parameter="slo")))


def test_what_fails_in_the_middle_ends_with_an_event() -> None:
    serving = judged("one", GivenUp(ENDING))
    created, one, error = asyncio.run(events_of(serving, begin(serving)))
    assert (created, one) == ("created", "one")
    assert (error.type, error.message, error.sequence_number) == ("error", ENDING, 2)
