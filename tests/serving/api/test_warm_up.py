"""Does a server come up though its engine answers nothing, as it does during a pause?"""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from serving.api import warm_up


class Paused:
    """vLLM's serving objects before an engine that is paused, `after` so many answers: whoever is cancelled is answered
    with an error, and who asks then would wait for ever."""

    def __init__(self, after: int) -> None:
        self.asked, self._after = 0, after

    async def create_chat_completion(self, request: Any) -> str:
        self.asked += 1
        assert self.asked <= self._after + 1
        if self.asked > self._after:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "Client disconnected"
        return "Hello!"

    create_completion = create_chat_completion


@pytest.mark.parametrize(("after", "asked"), [(0, 1), (1, 2), (3, 4), (9, 4)])
def test_warming_up_ends_where_nothing_is_answered(monkeypatch: pytest.MonkeyPatch, after: int, asked: int) -> None:
    monkeypatch.setattr(warm_up, "LIMIT_S", 0.05)
    paused = Paused(after)
    state = SimpleNamespace(openai_serving_chat=paused, openai_serving_completion=paused)
    asyncio.run(warm_up.warm_up(state))
    assert paused.asked == asked
