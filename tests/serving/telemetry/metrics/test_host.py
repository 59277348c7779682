"""Is a host that is too slow said to be that while it is, with what to do, and no longer?"""

import pytest
from prometheus_client import CollectorRegistry

from serving.cluster.node import State
from serving.flight import Flight, take
from serving.host_pace import CAUSES
from serving.telemetry.metrics import Metrics
from serving.telemetry.metrics.departures import KEPT_S
from serving.telemetry.metrics.host import ENOUGH, WINDOW_S
from serving.telemetry.watch import AGAIN, OVER, REMIND_S, Watch
from serving.types import Chunk
from tests.serving.telemetry.metrics.samples import flight, measured, node, record


class Run:
    """An emulation that is watched, second by second."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.metrics: Metrics
        self.registry: CollectorRegistry
        self.metrics, self.registry = measured()
        self.watch, self.now_s = Watch(self.metrics, self.said.append), 100.0
        self.watch.look(self.now_s)

    def second(self, late_s: float = 0.0, step_late_s: float = 0.0, underruns: int = 0, recorded: bool = False) -> None:
        """A request whose TTFT is 200 ms, and fifty steps of 20 ms with a token each."""
        one = flight()
        one.recorded = [] if recorded else None
        self.metrics.on_tokens(take(0, [(one, Chunk(one.request.id, 0, [1]))], 1.2))
        self.steps_of(one, late_s, step_late_s, underruns)

    def steps_of(self, one: Flight, late_s: float = 0.0, step_late_s: float = 0.0, underruns: int = 0) -> None:
        """A second of fifty steps with a token each of a request that has had its first."""
        at_s = one.last_s
        for step in range(50):
            self.metrics.on_step(
                record(latency_s=0.02, late_real_s=step_late_s, underruns=underruns if not step else 0)
            )
            at_s += 0.02
            self.metrics.on_tokens(take(0, [(one, Chunk(one.request.id, 1 + step, [1]))], at_s))
            self.metrics.on_delivery(0, late_s)
        self.pause()

    def pause(self) -> None:
        self.now_s += 1.0
        self.watch.look(self.now_s)

    def too_slow(self) -> dict[str, float]:
        value = self.registry.get_sample_value
        return {cause: value("foreserve_host_too_slow", {"cause": cause}) or 0.0 for cause in CAUSES}


def test_a_host_that_keeps_the_pace_is_left_in_peace() -> None:
    run = Run()
    for _ in range(30):
        run.second(late_s=0.009, step_late_s=0.0005)
    assert run.said == [] and sum(run.too_slow().values()) == 0
    assert run.metrics.host.pace.lateness_share == pytest.approx(0.045)


@pytest.mark.parametrize(
    ("trouble", "cause", "words"),
    [
        ({"late_s": 0.02}, "delivery", "tokens came out 20 ms late on average, 10.0% of the modelled TTFT of 200 ms"),
        ({"step_late_s": 0.002}, "steps", "devices ended their steps 2 ms late on average, 10.0% of the modelled step"),
        ({"underruns": 10}, "text", "19.6% of the tokens were not ready when the device released them"),
    ],
)
def test_it_is_told_while_it_is_and_not_after(trouble: dict[str, float], cause: str, words: str) -> None:
    run = Run()
    run.second(**trouble)  # type: ignore[arg-type]
    assert len(run.said) == 1 and words in run.said[0]
    assert "Try `serve --speed 0." in run.said[0] and "(or `--text recorded`)" in run.said[0]
    assert run.too_slow() == {name: float(name == cause) for name in CAUSES}
    for _ in range(int(WINDOW_S) + 1):
        run.second()
    assert run.said[1:] == [AGAIN] and sum(run.too_slow().values()) == 0
    assert run.watch.history.after().points[0].too_slow is False


def test_the_speed_that_is_proposed_is_that_at_which_lateness_keeps_its_limit() -> None:
    run = Run()
    run.second(late_s=0.04, recorded=True)
    assert run.said[0].endswith("Try `serve --speed 0.2`.")  # 0.8 x 5 % / 20 %; its text is recorded already.


def test_of_tokens_that_are_all_late_nobody_knows_how_late_they_are() -> None:
    run = Run()
    run.second(underruns=50)
    assert "98.0% of the tokens" in run.said[0] and "Try `serve --speed 0.2` (or" in run.said[0]


def test_tokens_that_are_still_owed_are_no_more_than_all() -> None:
    run = Run()
    run.second(underruns=128)
    assert "100.0% of the tokens were not ready" in run.said[0] and "Try `serve --speed 0.2` (or" in run.said[0]


@pytest.mark.parametrize("late", [{"late_s": 3.0}, {"step_late_s": 3.0}])
def test_a_backlog_tells_since_when_a_host_is_too_slow_and_not_by_how_much(late: dict[str, float]) -> None:
    run = Run()
    run.second(**late)  # type: ignore[arg-type]
    assert "3e+03 ms late" in run.said[0] and "Try `serve --speed 0.2` (or" in run.said[0]


def test_answers_that_began_long_ago_are_as_late_as_new_ones() -> None:
    run, one = Run(), flight()
    run.second(late_s=0.05)
    take(0, [(one, Chunk(one.request.id, 0, [1]))], 1.2)
    for _ in range(2 * int(WINDOW_S)):
        run.steps_of(one, late_s=0.05)
    assert len(run.said) == 1 and run.too_slow()["delivery"] == 1.0


def test_a_load_that_has_ended_is_said_to_be_over() -> None:
    run = Run()
    for _ in range(3):
        run.second(late_s=0.05)
    for _ in range(int(WINDOW_S) + 1):
        run.pause()
    assert run.said[1:] == [OVER]


def test_it_is_told_again_now_and_then_and_does_not_flicker_at_the_limit() -> None:
    run = Run()
    for second in range(int(REMIND_S) + 30):
        run.second(late_s=0.0105 if second % 2 else 0.0095)
    assert len(run.said) == 2 and all(words.startswith("This host is too slow") for words in run.said)


def test_few_releases_tell_nothing() -> None:
    run = Run()
    for _ in range(ENOUGH - 1):
        run.metrics.on_delivery(0, 1.0)
        run.metrics.on_step(record(late_real_s=1.0))
    run.pause()
    assert run.said == [] and not run.metrics.host.is_judged


def test_the_series_of_a_device_that_is_gone_end_and_the_pace_stays_what_it_is() -> None:
    run = Run()
    run.metrics.on_change(node(1))
    for _ in range(1000):
        run.metrics.on_delivery(1, 0.0)
        run.metrics.on_step(record(device=1))
        one = flight(device=1)
        run.metrics.on_tokens(take(1, [(one, Chunk(one.request.id, 0, [1]))], 3.0))
    run.metrics.on_change(node(1, State.GONE))
    run.pause()
    run.now_s += KEPT_S - WINDOW_S - 1.0
    for second in range(int(WINDOW_S) + 10):
        run.second(late_s=0.02, underruns=1)
        there = "foreserve_underruns_total", {"device": "1"}
        assert (run.registry.get_sample_value(*there) is None) == (second >= WINDOW_S)
        if second:
            assert run.metrics.host.pace.lateness_share == pytest.approx(0.1)
            assert run.metrics.host.pace.underrun_share == pytest.approx(1 / 51)
    assert len(run.said) == 1 and run.too_slow()["delivery"] == 1.0
