"""Does a window over the last second have all of it, and nothing twice?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.telemetry.metrics.window import Window
from tests.serving.telemetry.metrics.samples import IDLE_W, record


@given(gaps=st.lists(st.tuples(st.floats(0, 2), st.floats(0.001, 0.5)), min_size=1, max_size=40))
def test_a_window_has_the_last_second_and_never_more_than_all_of_it(gaps: list[tuple[float, float]]) -> None:
    window, at_s = Window(), 0.0
    for pause_s, latency_s in gaps:
        window.add(record(start_s=at_s + pause_s, latency_s=latency_s))
        at_s += pause_s + latency_s
        assert 0 <= window.busy_share(at_s) <= 1
        assert window.power_w(at_s, IDLE_W) > 0
    assert window.busy_share(at_s + 5) == pytest.approx(0, abs=1e-9)
    assert window.power_w(at_s + 5, IDLE_W) == pytest.approx(IDLE_W)


@pytest.mark.parametrize("every_s", [0.02, 0.5, 2.0])
def test_a_window_between_sparse_steps_is_mostly_idle(every_s: float) -> None:
    """A step of 10 ms, with 1 J and 2 MB from the external memory, now and then."""
    window, seen = Window(), list[tuple[float, float]]()
    for number in range(1, 400):
        window.add(record(start_s=number * every_s, latency_s=0.01, energy_j=(1.0, 0.0, 0.0, 0.0, 0.0)))
        looks_s = [number * every_s + 0.01 + share * (every_s - 0.01) for share in (0.0, 0.25, 0.5, 0.75)]
        if number * every_s > 2:
            seen += [(window.power_w(at_s, IDLE_W), window.busy_share(at_s)) for at_s in looks_s]
    for power_w, busy in seen:
        assert busy <= 0.01 * (1 / every_s + 1) * (1 + 1e-9)
        assert power_w == pytest.approx(busy / 0.01 + IDLE_W * (1 - busy))
