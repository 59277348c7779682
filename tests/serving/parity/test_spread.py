"""Does a workload whose requests come later stay the same workload?"""

import numpy as np
import pytest

from serving.parity.figures import ARRIVED, CLIENT, DEVICE, PLANNED, ComparedRow, quantiles, times_of
from serving.parity.spread import LateWorkload, spread
from serving.scenario.scenario import Scenario
from serving.simulation.play import play
from serving.workload import Source
from serving.workload.spec import Workload, workload_of
from serving.workload.table import WorkloadTable
from tests.serving.workload.files import served

OPEN = {"kind": "poisson", "rate_per_s": 5}
CLOSED = {"kind": "closed", "users": 3}


def workload(arrivals: dict[str, object]) -> Workload:
    return workload_of(
        WorkloadTable(
            {"prompt": 60, "output": {"kind": "exponential", "mean": 30}, "requests": 30, "arrivals": arrivals}, None
        )
    )


def test_requests_come_later_by_one_of_the_delays_and_are_the_same() -> None:
    for arrivals in (OPEN, CLOSED):
        planned = served(Source(workload(arrivals)))
        late = served(LateWorkload(workload(arrivals), [0.01, 0.02], np.random.default_rng(0)))
        assert {ask.id: (ask.prompt, ask.output_tokens) for ask, _ in planned} == {
            ask.id: (ask.prompt, ask.output_tokens) for ask, _ in late
        }
        later_s = np.array([two.arrival_s - one.arrival_s for (one, _), (two, _) in zip(planned, late, strict=True)])
        assert (later_s > 0.009).all() and later_s[0] < 0.021
        assert (np.diff([ask.arrival_s for ask, _ in late]) >= 0).all()


@pytest.mark.slow
def test_figures_move_with_delays_and_not_without() -> None:
    outcomes, _ = play(workload(OPEN), Scenario())
    rows = []
    for each in outcomes:
        times = dict.fromkeys((CLIENT, DEVICE, ARRIVED, PLANNED), times_of(each))
        rows.append(
            ComparedRow(each.request.id, times, 0, 0, 0.0, 0.0, 60, 60, each.tokens, each.tokens, "", "", False, 0.0)
        )
    still = spread(workload(OPEN), Scenario(), rows, 0.05)
    assert {each.chance_s for each in still.values()} == {0.0}
    assert still["ttft_s", "mean"].late_s == quantiles(rows, PLANNED, "ttft_s").mean
    late = [row._replace(delay_s=i / 1e3) for i, row in enumerate(rows)]
    moved = spread(workload(OPEN), Scenario(), late, 0.05)
    assert 0.0 < moved["ttft_s", "mean"].chance_s < 0.1
    assert moved == spread(workload(OPEN), Scenario(), late, 0.05)
    assert spread(workload(OPEN), Scenario(), [], 0.05) == {}
    slips = [row._replace(slipped=True) for row in rows]
    assert spread(workload(OPEN), Scenario(), slips, 0.05)["ttft_s", "mean"].late_s != moved["ttft_s", "mean"].late_s
