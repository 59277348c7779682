"""Are the times between tokens that a study keeps by their lengths those of its requests' tokens?"""

from typing import Any

import numpy as np
import pytest

from serving.scenario.scenario import Scenario
from serving.simulation.play import play
from serving.study.measures.targets import Targets
from serving.study.measures.token_gaps import TokenGaps
from serving.study.recorder import Recorder
from serving.types import NEVER
from serving.workload.spec import workload_of
from serving.workload.table import WorkloadTable

LONG = {"requests": 60, "arrivals": {"kind": "poisson", "rate_per_s": 2}, "prompt": 1500, "output": 80}
SHORT = {"requests": 60, "arrivals": {"kind": "poisson", "rate_per_s": 4}, "prompt": 300, "output": 60}
CROWD = {"requests": 100, "arrivals": {"kind": "poisson", "rate_per_s": 200}, "prompt": 1500, "output": 500}
FULL_HB = {"hardware": "elmoe3d-4gb", "kv_tier": "fast", "max_num_seqs": 256}


@pytest.mark.parametrize(
    ("load", "options"),
    [
        (LONG, {}),
        (LONG, {"prefill": "prefill-first"}),
        (LONG, {"prefill": "decode-first", "mode": "fixed-ar"}),
        (SHORT, {"faults": ("stall: at=3, for=2",)}),
        (SHORT, {"devices": 2, "faults": ("lost: device=0, at=4, for=5",)}),
        (CROWD, FULL_HB | {"preemption": "recompute"}),
        (CROWD, FULL_HB | {"preemption": "spill", "mode": "fixed-ar"}),
    ],
)
def test_every_gap_between_two_tokens_of_a_request_counts(load: dict[str, Any], options: dict[str, Any]) -> None:
    asked, scenario = workload_of(WorkloadTable(load, None)), Scenario(**options)
    outcomes, records = play(asked, scenario)
    assert sum(record.preemptions for record in records) > 0 or "preemption" not in options
    # Tokens that come at once count once.
    gaps_s = np.concatenate([np.diff(np.unique(each.tokens_s)) for each in outcomes])
    recorder = Recorder(Targets(own=True), 0.0, NEVER)
    play(asked, scenario, observer=recorder)
    for share in (0.5, 0.9, 0.99, 1.0):
        found_s = recorder.gaps.within_s(share)
        assert found_s == pytest.approx(np.quantile(gaps_s, share, method="inverted_cdf"), rel=0.006)
        within = recorder.gaps.share_within(found_s)
        assert np.mean(gaps_s <= found_s / 1.006) <= within <= np.mean(gaps_s <= found_s * 1.006)


def test_only_tokens_in_the_window_count() -> None:
    gaps = TokenGaps(2.0, 4.0)
    gaps.add({"a": 1, "b": 1}, [1.0])
    gaps.add({"a": 1}, [1.5])
    gaps.add({"a": 5, "b": 5}, [1.75, 2.0, 2.25, 2.5, 2.75])
    assert (gaps.within_s(1.0), gaps.share_within(0.2)) == (pytest.approx(0.25, rel=0.006), 0.0)
    gaps.add({"a": 1, "b": 1}, [3.75])
    gaps.end("a")
    gaps.add({"b": 1}, [4.5])
    # Eight of a quarter of a second, and two of one; what came before or comes later is nobody's.
    assert gaps.share_within(0.3) == 0.8
    assert gaps.within_s(0.99) == pytest.approx(1.0, rel=0.006)


def test_a_request_of_one_token_has_no_gap() -> None:
    gaps = TokenGaps(0.0, NEVER)
    gaps.add({"a": 1}, [1.0])
    gaps.end("a")
    assert (gaps.within_s(0.99), gaps.share_within(0.0)) == (0.0, 1.0)
