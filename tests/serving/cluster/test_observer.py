"""An observer of the edge that fails keeps nothing from the others, and is named; batched ones hear all, in order."""

import asyncio
import logging

import pytest

from serving.cluster.batched_listeners import BATCH_S, MOST_WAITING, BatchedListeners
from serving.cluster.observer import EdgeBroadcast, EdgeObserver
from serving.types import Release, StepRecord
from tests.serving.telemetry.metrics.samples import record


class Broken(EdgeObserver):
    def on_step(self, record: StepRecord) -> None:
        raise OSError("full")

    def on_delivery(self, device: int, late_real_s: float) -> None:
        raise OSError("full")


class Heard(EdgeObserver):
    def __init__(self) -> None:
        self.steps: list[StepRecord] = []
        self.late_s: list[float] = []

    def on_step(self, record: StepRecord) -> None:
        self.steps.append(record)

    def on_delivery(self, device: int, late_real_s: float) -> None:
        self.late_s.append(late_real_s)


def test_one_that_fails_is_named_and_the_others_hear_all(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    with caplog.at_level(logging.ERROR, "foreserve"):
        broadcast = EdgeBroadcast([Broken(), heard])
        broadcast.on_step(step := record())
        broadcast.on_delivery(0, 0.25)
    assert heard.steps == [step] and heard.late_s == [0.25]
    assert [line.split(" failed")[0] for line in caplog.messages] == [
        "Observer Broken.on_step",
        "Observer Broken.on_delivery",
    ]


def test_quiet_observers_hear_nothing_until_they_are_to_listen() -> None:
    heard = Heard()
    listeners = EdgeBroadcast([heard], quiet=True)
    whole = EdgeBroadcast([listeners])
    whole.on_step(record())
    listeners.listen()
    whole.on_step(step := record())
    assert heard.steps == [step]


class Order(EdgeObserver):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_release(self, release: Release, news: list[object]) -> None:  # type: ignore[override]  # never looked at
        self.heard.append("release")

    def on_step(self, record: StepRecord) -> None:
        self.heard.append("step")

    def on_delivery(self, device: int, late_real_s: float) -> None:
        self.heard.append("delivery")

    def on_restart(self, actor: str) -> None:
        self.heard.append("restart")


def test_batched_listeners_hear_of_steps_a_moment_later_and_before_all_else() -> None:
    async def play() -> None:
        order = Order()
        listeners = BatchedListeners([order])
        listeners.on_step(record())  # not yet listening
        listeners.listen()
        listeners.on_step(record())
        listeners.on_delivery(0, 0.25)
        listeners.on_release(Release(0, 0.0, []), [])
        assert order.heard == ["release"]
        await asyncio.sleep(2 * BATCH_S)
        assert order.heard == ["release", "step", "delivery"]
        listeners.on_step(record())
        listeners.on_restart("device 0")
        assert order.heard[3:] == ["step", "restart"]

    asyncio.run(play())


def test_what_follows_an_event_in_the_same_turn_does_not_wait() -> None:
    async def play() -> None:
        order = Order()
        listeners = BatchedListeners([order])
        listeners.listen()
        listeners.on_restart("device 0")
        listeners.on_step(record())
        assert order.heard == ["restart", "step"]
        await asyncio.sleep(0)
        listeners.on_step(record())
        assert order.heard == ["restart", "step"]

    asyncio.run(play())


def test_no_more_than_a_batch_waits() -> None:
    async def play() -> None:
        order = Order()
        listeners = BatchedListeners([order])
        listeners.listen()
        for _ in range(MOST_WAITING + 1):
            listeners.on_step(record())
        assert len(order.heard) == MOST_WAITING
        listeners.flush()
        assert len(order.heard) == MOST_WAITING + 1

    asyncio.run(play())
