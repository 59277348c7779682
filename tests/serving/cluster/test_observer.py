"""An observer of the edge that fails keeps nothing from the others, and is named."""

import logging

import pytest

from serving.cluster.observer import EdgeBroadcast, EdgeObserver
from serving.types import StepRecord
from tests.serving.telemetry.metrics.test_metrics import record


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
