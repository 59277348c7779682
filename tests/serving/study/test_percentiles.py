"""Are percentiles and targets for them what requests say, and do they decide what a study answers?"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.refusals import Reason, Refusal
from serving.simulation.node import Outcome
from serving.study import load_study, run_study
from serving.study.measures.percentiles import METRICS, Percentile, PercentileTarget, percentile_of
from serving.study.measures.targets import Targets
from serving.study.measures.token_gaps import TokenGaps
from serving.study.recorder import Recorder
from serving.study.results import Results
from serving.study.summary import is_figure, summary
from serving.types import NEVER, Request
from tests.examples import examples

WORKLOAD = """
[workload]
requests = 60
arrivals = { kind = "poisson", rate_per_s = 3 }
prompt = { kind = "lognormal", mean = 200, cv = 1 }
output = { kind = "exponential", mean = 60 }
"""


ONE_TOKEN = """
[workload]
requests = 3
arrivals = { kind = "poisson", rate_per_s = 2 }
prompt = 10
output = 1
"""
GROWING = """
[workload]
requests = 150
arrivals = { kind = "closed", users = 8, ramp_s = 20 }
prompt = 10
output = 40
"""


def ran(folder: Path, text: str, workload: str = WORKLOAD) -> Results:
    path = folder / "study.toml"
    path.write_text(text + workload)
    return run_study(load_study(path), folder / "out")


@given(st.sampled_from(list(METRICS)), st.integers(1, 99), st.integers(0, 999))
@examples(50)
def test_a_percentile_has_one_name(metric: str, whole: int, thousandths: int) -> None:
    each = Percentile(metric, float(f"{whole}.{thousandths:03}"))
    assert percentile_of(each.figure) == each and is_figure(each.figure)
    assert percentile_of(each.figure.removesuffix("_s") + "_ms", "ms") == each
    assert percentile_of(each.figure, "ms") is None


@pytest.mark.parametrize("percent", [50, 55, 95, 99, 99.5, 99.9, 99.99])
def test_a_percentile_is_kept_if_just_so_many_are_within_its_limit(percent: float) -> None:
    gaps = TokenGaps(0.0, NEVER)
    within = round(percent * 100)
    for name, count, gap_s in (("quick", within, 0.01), ("slow", 10_000 - within, 1.0)):
        for at_s in (0.0, gap_s):
            gaps.add({f"{name}-{number}": 1 for number in range(count)}, [at_s])
    target = PercentileTarget(Percentile("itl", percent), 0.02)
    assert gaps.share_within(target.limit_s) / target.share >= 1
    assert gaps.within_s(target.share) <= target.limit_s


OTHERWISE = ("ttft_p09_s", "ttft_p95_0_s", "ttft_p99_99999999_s")


@pytest.mark.parametrize(
    "name", ["ttft_p0_s", "ttft_p100_s", "ttft_mean_s", "tau", "ttft_p95", "foo_p95_s", *OTHERWISE]
)
def test_anything_else_is_none(name: str) -> None:
    assert percentile_of(name) is None


def test_tokens_of_requests_that_were_refused_are_beyond_any_limit() -> None:
    targets = Targets(share=0.0, percentiles=(PercentileTarget(Percentile("itl", 99), 0.05),))
    recorder = Recorder(targets, 0.0, NEVER)
    for place in range(4):
        outcome = Outcome(Request(f"r-{place}", 0.0, 10, 2), 0, None, 0.0, 0.1, 0.12, 2)
        if place:
            outcome.refused = Reason.QUEUE
            recorder.on_refusal(Refusal(Reason.QUEUE, ""), outcome)
            continue
        for at_s in (0.1, 0.12):
            recorder.on_tokens({outcome.request.id: 1}, [at_s])
        recorder.on_finish(outcome)
    row = summary(recorder, recorder.requests.close(), targets)
    assert row["itl_p99_s"] == pytest.approx(0.02, rel=0.01)
    assert row["itl_p99_attainment"] == 0.25


def test_percentiles_and_shares_are_those_of_the_requests(tmp_path: Path) -> None:
    slo = "slo = { ttft_p95_ms = 400, tpot_p90_ms = 25, e2e_p99_9_ms = 5000, itl_p50_ms = 20 }\n"
    results = ran(tmp_path, f'question = "sweep"\npercentiles = [75, 12.5]\n{slo}')
    (row,), requests = results.points.to_dict("records"), results.requests
    several = requests[requests.output_tokens > 1]
    for percent, name in ((75, "75"), (12.5, "12_5"), (95, "95")):
        assert row[f"ttft_p{name}_s"] == pytest.approx(np.percentile(requests.ttft_s, percent))
        assert row[f"tpot_p{name}_s"] == pytest.approx(np.percentile(several.tpot_s, percent))
    assert row["e2e_p99_9_s"] == pytest.approx(np.percentile(requests.e2e_s, 99.9))
    assert row["ttft_p95_attainment"] == (requests.ttft_s <= 0.4).mean()
    assert row["tpot_p90_attainment"] == (several.tpot_s <= 0.025).mean()
    assert row["e2e_p99_9_attainment"] == (requests.e2e_s <= 5).mean()
    assert (row["itl_p50_attainment"] >= 0.5) == (row["itl_p50_s"] <= 0.02)
    # Goodput is of requests within the limits of both, as nothing is said of requests.
    assert row["attainment"] == ((requests.ttft_s <= 0.4) & (requests.tpot_s <= 0.025)).mean()


def test_a_share_beside_percentiles_that_limit_no_request_is_of_those_served(tmp_path: Path) -> None:
    text = 'question = "sweep"\nslo = { e2e_p95_ms = 60000, share = 0.9 }\n'
    assert "90 % of the requests are served and E2E p95 ≤ 60 s" in ran(tmp_path, text).report.read_text()


def test_a_refused_request_is_beyond_any_limit(tmp_path: Path) -> None:
    results = ran(tmp_path, 'question = "sweep"\nslo = { ttft_p50_ms = 60000 }\nscenario.max_queue = 1\n')
    (row,) = results.points.to_dict("records")
    assert 0 < row["refused"] < 60
    assert row["ttft_p50_attainment"] == 1 - row["refused"] / 60


@pytest.mark.parametrize(("limit_ms", "kept"), [(10_000, True), (1, False)])
def test_a_percentile_decides_whether_targets_are_kept(tmp_path: Path, limit_ms: int, kept: bool) -> None:
    results = ran(tmp_path, f'question = "sweep"\nslo = {{ ttft_p95_ms = {limit_ms} }}\n')
    assert bool(results.answer_rows) == kept
    page = results.report.read_text()
    assert ("TTFT p95 ≤ 10 s" if kept else "TTFT p95 ≤ 1 ms") in page and "0 % of the requests" not in page


@pytest.mark.slow
def test_capacity_is_limited_by_the_percentile_that_is_missed_first(tmp_path: Path) -> None:
    text = 'question = "capacity"\ncapacity = { tolerance = 0.2 }\n'
    (loose,) = ran(tmp_path, f"{text}slo = {{ e2e_p50_ms = 60000, tpot_p90_ms = 30 }}\n").answer_rows
    (tight,) = ran(tmp_path, f"{text}slo = {{ e2e_p50_ms = 1000, tpot_p90_ms = 30 }}\n").answer_rows
    assert loose["limit"] == "TPOT p90" and tight["limit"].startswith("E2E p50") and tight["load"] < loose["load"]
    assert loose["tpot_p90_s"] <= 0.03


def test_a_search_is_by_any_percentile(tmp_path: Path) -> None:
    search = 'search = { minimise = "queue_p75_s", where = ["itl_p95_s <= 9"] }\naxes.max_num_seqs = [1, 8]\n'
    (answer,) = ran(tmp_path, f'question = "search"\n{search}').answer_rows
    assert answer["max_num_seqs"] == 8 and answer["kept"] and answer["itl_p95_s"] > 0


def test_requests_without_such_a_latency_miss_no_target_of_it(tmp_path: Path) -> None:
    slo = "slo = { ttft_ms = 60000, tpot_p99_ms = 1, itl_p99_ms = 1 }\n"
    results = ran(tmp_path, f'question = "sweep"\n{slo}scenario = {{ mode = "fixed-ar" }}\n', ONE_TOKEN)
    (row,) = results.points.to_dict("records")
    assert row["tpot_p99_attainment"] == row["itl_p99_attainment"] == row["tpot_attainment"] == 1.0


def test_tokens_are_judged_in_the_window_in_which_requests_are(tmp_path: Path) -> None:
    text = 'question = "sweep"\npercentiles = [1]\nslo.itl_p50_ms = 20\nscenario.mode = "fixed-ar"\njudge.from_s = %s\n'
    found = []
    for name, from_s in (("all", 0), ("late", 15)):
        folder = tmp_path / name
        folder.mkdir()
        (row,) = ran(folder, text % from_s, GROWING).points.to_dict("records")
        found.append(row["itl_p1_s"])
    assert found[0] < found[1]  # Users come one after the other: batches grow.
