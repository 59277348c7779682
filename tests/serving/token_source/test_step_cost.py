"""Is the time of a step learned from steps, and nothing foolish said of batches that there were none of?"""

from random import Random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.recordings.source_load import EACH_S, STEP_S, SourceLoad
from serving.token_source.step_cost import StepTimeFit


def test_a_line_is_found() -> None:
    cost = StepTimeFit()
    for number in range(2000):
        rows = 1 + number % 64
        cost.learn(rows, 0.010 + 0.001 * rows)
    step_s, each_s = cost.line
    assert step_s + 32 * each_s == pytest.approx(0.042, rel=0.1)
    assert each_s == pytest.approx(0.001, rel=0.1)


def test_steps_of_one_sequence_do_not_make_it_dear() -> None:
    cost = StepTimeFit()
    for _ in range(1000):
        cost.learn(1, 0.004)
    step_s, each_s = cost.line
    assert step_s == pytest.approx(0.004, rel=0.15) and each_s < 0.0005


@given(slowness=st.floats(0.3, 10), rows=st.integers(1, 64), others=st.integers(1, 128))
def test_by_steps_of_one_size_a_source_is_as_much_slower_or_faster_with_any_other(
    slowness: float, rows: int, others: int
) -> None:
    """A slow source's more streams are not free, and a fast one's not as dear as believed."""
    cost = StepTimeFit()
    for _ in range(300):
        cost.learn(rows, slowness * (STEP_S + rows * EACH_S))
    step_s, each_s = cost.line
    assert step_s + others * each_s == pytest.approx(slowness * (STEP_S + others * EACH_S), rel=0.25)


@pytest.mark.parametrize(
    ("step_s", "each_s", "fewest", "most"),
    [(0.012, 0.0, 48, 128), (0.003, 0.0001, 48, 128), (0.004, 0.0005, 20, 28), (0.020, 0.002, 0, 2)],
    ids=["gpu", "fast", "cpu", "slow"],
)
def test_streams_come_until_the_source_has_time_for_no_more(
    step_s: float, each_s: float, fewest: int, most: int
) -> None:
    """Each stream wants 35 tokens a second; answers end, and others begin."""
    load = SourceLoad(lambda *_: 35.0, lambda: (0.3, 35.0), lambda: [0], lambda: 1)
    cost, draw, streams, counts = StepTimeFit(), Random(0), 0, []
    for second in range(120):
        for _ in range(5):
            load.learn(*cost.line)
            if streams < 128 and not load.behind(float(second), 100):
                load.begin(0)
                streams += 1
        for _ in range(35):
            if streams:
                cost.learn(streams, (step_s + streams * each_s) * draw.uniform(0.9, 1.1))
        for _ in range(sum(draw.random() < 1 / 20 for _ in range(streams))):
            load.end(0)
            streams -= 1
        counts.append(streams)
    assert fewest <= median(counts[60:]) <= most


@given(steps=st.lists(st.tuples(st.integers(1, 512), st.floats(0, 5)), max_size=50))
def test_no_time_is_negative(steps: list[tuple[int, float]]) -> None:
    cost = StepTimeFit()
    for rows, seconds in steps:
        cost.learn(rows, seconds)
    assert min(cost.line) >= 0
