"""Observers are told of the events that they extend, in order, and of no others."""

from collections.abc import Callable
from typing import Any

import pytest

from serving.observer import Broadcast, Observer
from serving.types import StepRecord
from tests.serving.telemetry.metrics.samples import record

Anything = Observer[Any, Any]


class Steps(Anything):
    """Keeps the steps that it hears of, and what it is named."""

    def __init__(self, name: str, said: list[tuple[str, StepRecord]]) -> None:
        self.name, self._said = name, said

    def on_step(self, record: StepRecord) -> None:
        self._said.append((self.name, record))


def test_observers_are_told_in_their_order_and_those_of_a_broadcast_in_its_place() -> None:
    said: list[tuple[str, StepRecord]] = []
    inner = Broadcast[Any, Any]([Steps("b", said), Steps("c", said)])
    Broadcast[Any, Any]([Steps("a", said), inner, Steps("d", said), Observer()]).on_step(step := record())
    assert said == [(name, step) for name in "abcd"]


def test_a_single_observer_is_told_without_a_detour_and_nobody_is_told_what_nobody_extends() -> None:
    only = Steps("a", [])
    told: Callable[..., None] = Broadcast[Any, Any]([Observer(), only]).on_step
    assert told == only.on_step
    assert "on_change" not in vars(Broadcast[Any, Any]([only]))


def test_what_an_observer_raises_reaches_whoever_tells() -> None:
    class Broken(Anything):
        def on_step(self, record: StepRecord) -> None:
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        Broadcast[Any, Any]([Broken(), Steps("a", [])]).on_step(record())
