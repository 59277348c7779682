"""Studies as they are run: on Ray, kept as they go, by the command and from Python."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from serving.cli.study_run import run_shown
from serving.cluster.session.ray_session import ray_session
from serving.scenario.scenario import Scenario
from serving.scenario.slo import parse_classes
from serving.simulation.simulator import Simulator
from serving.study import Results, Targets, load_study, load_workload, run_study, simulate
from serving.study.point_factory import points_of
from serving.study.runner import FEW_REQUESTS, StudyProgress, StudyRunner, has_few
from serving.study.store import Store
from serving.study.study import Inquiry
from serving.study.summary import COLUMNS
from serving.types import NEVER
from serving.workload.source import Source
from serving.workload.virtual import request_of

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "studies"
FORESERVE = str(Path(sys.executable).parent / "foreserve")
# Of these, the KV cache of what is preempted has nowhere to go in one combination.
FAILING = 'kv_tier = ["all", "fast"]\npreemption = ["recompute", "spill"]\n'
SWEEP = f"""
question = "sweep"
slo = {{ ttft_ms = 600, tpot_ms = 60 }}
[axes]
{FAILING}load = [0.5, 1, 2]
[workload]
requests = 60
arrivals = {{ kind = "poisson", rate_per_s = 1.5 }}
prompt = 150
output = 60
"""


@pytest.fixture(scope="module")
def cores() -> Iterator[int]:
    """A Ray that studies of this module share."""
    with ray_session(2):
        yield 2


def written(folder: Path, text: str = SWEEP) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    return path


def test_a_run_is_what_its_requests_and_steps_are() -> None:
    workload = load_workload(ROOT / "examples" / "workloads" / "burst.toml", requests=80)
    classes = ("interactive: ttft_ms=300", "standard: tpot_ms=20", "batch: priority=1")
    scenario = Scenario(devices=2, slo_classes=classes, early_rejection=False)
    run = simulate(scenario, workload)
    source = Source(workload)
    asked = [request_of(ask, parse_classes(classes, "slo_classes"), 16, source.seed) for ask in source]
    outcomes, records = Simulator(scenario).serve(asked)
    by_id = run.requests.set_index("request")
    assert set(run.summary) == {*COLUMNS, "wall_s"}
    assert len(by_id) == 80 == run.summary["requests"]
    for each in outcomes:
        row = by_id.loc[each.request.id]
        assert (row.ttft_s, row.tpot_s, row.device) == (each.ttft_s, each.tpot_s, each.device)
        assert (row.ttft_ok and row.tpot_ok) == each.good
    assert run.summary["attainment"] == sum(each.good for each in outcomes) / 80
    assert run.summary["steps"] == sum(record.steps for record in records)
    stepped_j = sum(sum(record.energy_j) for record in records)
    assert run.summary["joules"] - run.summary["idle_joules"] == pytest.approx(stepped_j)
    assert run.timeline.joules.sum() == pytest.approx(stepped_j)
    assert run.summary["span_s"] == max(each.last_s for each in outcomes)
    gaps = [latency for record in records if record.phase != "prefill" for latency in [record.latency_s / record.steps]]
    assert min(gaps) * 0.98 <= run.summary["itl_p50_s"] <= run.summary["itl_p99_s"] <= max(gaps) * 1.02


def test_only_requests_in_the_window_are_judged() -> None:
    workload = load_workload(ROOT / "examples" / "workloads" / "burst.toml", requests=80)
    run = simulate(Scenario(), workload, Targets(0.3, NEVER), from_s=20, to_s=70)
    judged = run.requests[run.requests.judged]
    assert 0 < len(judged) < 80 and judged.arrival_s.between(20, 70).all()
    assert run.summary["attainment"] == (judged.ttft_s <= 0.3).mean()
    assert run.summary["ttft_mean_s"] == pytest.approx(judged.ttft_s.mean())
    assert run.summary["goodput_per_s"] == pytest.approx(
        (judged.ttft_s <= 0.3).sum() / (min(70, run.summary["span_s"]) - 20)
    )


def test_a_device_that_is_lost_draws_nothing() -> None:
    workload = load_workload(ROOT / "examples" / "workloads" / "burst.toml", requests=80)
    there = simulate(Scenario(devices=2), workload).summary
    lost = simulate(Scenario(devices=2, faults=("lost: device=1, at=0.001",)), workload).summary
    back = simulate(Scenario(devices=2, faults=("lost: device=1, at=0.001, for=5",)), workload).summary
    idle_w = there["idle_joules"] / (2 * there["span_s"] * (1 - there["busy_share"]))
    assert lost["idle_joules"] == pytest.approx(idle_w * (1 - lost["busy_share"]) * (lost["span_s"] + 0.001))
    assert back["idle_joules"] == pytest.approx(idle_w * (1 - back["busy_share"]) * (2 * back["span_s"] - 5))


def test_a_study_keeps_its_points_and_names_those_that_fail(cores: int, tmp_path: Path) -> None:
    study, out = load_study(written(tmp_path)), tmp_path / "out"
    first = run_study(study, out)
    names = [f"kv_tier=all, preemption=spill, load={load}" for load in ("0.5", "1", "2")]
    assert [str(point) for point, _ in first.failed] == names
    assert all("nowhere to spill to" in sentence for _, sentence in first.failed)
    assert list(first.points.load) == [0.5, 1.0, 2.0] * 3 and first.points.ttft_mean_s[:3].is_monotonic_increasing
    assert set(first.requests.point) == set(first.points.point) and len(first.requests) == 540
    seen = []
    again = run_study(study, out, on_progress=lambda progress: seen.append(progress.kept))
    assert seen[-1] == 9  # Those that failed are tried again.
    pd.testing.assert_frame_equal(again.points, first.points)
    # The same to the last digit, whoever makes it, but for how long that took.
    fresh = run_study(study, tmp_path / "fresh", cores=1)
    pd.testing.assert_frame_equal(fresh.points.drop(columns="wall_s"), first.points.drop(columns="wall_s"))
    assert len(pq.read_table(out / "points.parquet")) == 12 == len(pd.read_csv(out / "points.csv"))


def test_tables_have_lists_as_a_study_reads_them(tmp_path: Path) -> None:
    fleets = ["elmoe3d-8gb"], ["2 x elmoe3d-4gb", "elmoe3d-8gb"]
    axes = f'fleet = {list(fleets)}\n"workload.prompt" = [{{ kind = "constant", value = 150 }}]\n'
    study = load_study(written(tmp_path, SWEEP.replace(FAILING, axes).replace("load = [0.5, 1, 2]", "")))
    run_study(study, out := tmp_path / "out")
    points, answers = (pd.read_csv(out / name) for name in ("points.csv", "answers.csv"))
    assert list(points.fleet) == list(pq.read_table(out / "points.parquet")["fleet"].to_pylist())
    assert set(answers.fleet) <= set(points.fleet) and set(answers["workload.prompt"]) == set(points["workload.prompt"])
    told = f'fleet = [{", ".join(points.fleet)}]\n"workload.prompt" = [{points["workload.prompt"][0]}]\n'
    again = load_study(written(tmp_path, SWEEP.replace(FAILING, told).replace("load = [0.5, 1, 2]", "")))
    assert again.axes == study.axes


@pytest.fixture
def other_specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """What makes the code, with the specs that belong to it, another than it was."""

    def change() -> None:
        (tmp_path / "specs" / "models").mkdir(parents=True)
        (tmp_path / "specs" / "models" / "mine.toml").write_text("# none yet")
        monkeypatch.setenv("FORESERVE_SPECS", str(tmp_path / "specs"))

    return change


@pytest.mark.slow
def test_kept_points_of_other_code_are_counted_once_and_made_again(
    other_specs: Callable[[], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, out = SWEEP.replace(FAILING, ""), tmp_path / "out"
    run_shown(load_study(written(tmp_path, text)), out, None, fresh=False)
    assert capsys.readouterr().err == ""
    other_specs()
    again = load_study(written(tmp_path, text.replace("1, 2]", "1, 2, 3]")))
    seen = []
    run_study(again, tmp_path / "fresh", on_progress=lambda progress: seen.append(progress.outdated))
    results = run_shown(again, out, None, fresh=False)
    assert seen[-1] == 0 and len(results.points) == 4
    told = capsys.readouterr().err
    assert told == (
        f"3 points in {out} were made by other code, or by other specs, than there are now, and were not used: "
        "foreserve computes them again.\n"
    )
    run_shown(again, out, None, fresh=False)
    assert capsys.readouterr().err == ""


SMALL = """
from pathlib import Path
from serving.study import load_study, run_study
results = run_study(load_study(Path("study.toml")), "out")
import sys
assert len(results.points) == 3 and "ray" not in sys.modules, len(results.points)
"""


@pytest.mark.slow
def test_a_small_study_does_without_ray(tmp_path: Path) -> None:
    written(tmp_path, SWEEP.replace(FAILING, ""))
    ended = subprocess.run([sys.executable, "-c", SMALL], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(("requests", "few"), [(FEW_REQUESTS, True), (FEW_REQUESTS + 1, False)])
def test_a_point_of_many_requests_is_for_workers(requests: int, few: bool, tmp_path: Path) -> None:
    study = load_study(written(tmp_path, SWEEP.replace("requests = 60", f"requests = {requests}")))
    assert has_few(points_of(study, {"load": 1})[0]) == few


@pytest.mark.slow
def test_a_variant_that_is_as_the_baseline_is_once_as_good(cores: int, tmp_path: Path) -> None:
    same = SWEEP.replace('"sweep"', '"compare"').replace(FAILING, "")
    results = run_study(
        load_study(written(tmp_path, same + "[variants]\na = {}\nb = {}\nc = { mode = 'fixed-ar' }\n")), tmp_path
    )
    assert list(results.answers.variant) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    ratios = results.answers.filter(like=" /base")
    assert (ratios[:6] == 1).all(axis=None) and not (ratios[6:] == 1).all(axis=None)


def test_a_window_that_nobody_arrives_in_is_no_answer(cores: int, tmp_path: Path) -> None:
    late = SWEEP.replace("[axes]", "judge = { from_s = 1000 }\n[axes]")
    results = run_study(load_study(written(tmp_path, late)), str(tmp_path / "out"))
    assert len(results.failed) == 12 and results.points.empty
    assert any("No request arrives in the window of `judge`" in sentence for _, sentence in results.failed)


SLOW = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("node-sizing", "topic-drift", "choosing-tau", "modes", "stratum-topics", "stratum-published-topics")
]


@pytest.mark.parametrize("name", ["hardware-for-users", *SLOW])
def test_the_examples_answer_in_small(name: str, cores: int, tmp_path: Path) -> None:
    # The first 40 of "modes" come before those that it judges.
    few = 400 if name == "modes" else 40
    results = run_study(load_study(EXAMPLES / f"{name}.toml", requests=few), tmp_path)
    assert isinstance(results, Results) and not results.failed
    assert results.report.stat().st_size > 100_000
    of_stratum = {"stratum-topics": 18, "stratum-published-topics": 10}
    answers = {"node-sizing": 4, "choosing-tau": 1, "topic-drift": 9, "hardware-for-users": 6, "modes": 6} | of_stratum
    assert len(results.answers) == answers[name]


@pytest.mark.slow
def test_the_command_goes_on_after_it_was_ended(tmp_path: Path) -> None:
    path, out = written(tmp_path, SWEEP.replace("requests = 60", "requests = 800")), tmp_path / "out"
    command = [FORESERVE, "study", str(path), "--out", str(out), "--cores", "1"]
    # Of what was started in the background, Ctrl-C would be ignored.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, preexec_fn=heed)
    while not list((out / "points").glob("*.msgpack")) and first.poll() is None:
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    _, told = first.communicate(timeout=60)
    kept = len(list((out / "points").glob("*.msgpack")))
    assert first.returncode == 130 and "the same command goes on" in told and "Traceback" not in told
    assert 1 <= kept < 9
    second = subprocess.run([*command, "--json"], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert second.returncode == 1 and second.stderr.count("preemption=spill") == 3
    found = json.loads(second.stdout)
    assert len(found["points"]) == 12


def test_a_wrong_study_is_told_in_a_sentence(tmp_path: Path) -> None:
    path = written(tmp_path, SWEEP.replace("load = ", "laod = "))
    ended = subprocess.run([FORESERVE, "study", str(path)], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1
    assert "study.toml, line 7: there is no key `laod`" in ended.stderr


def test_an_inquiry_whose_points_are_all_kept_may_ask_for_them_in_any_number_of_rounds(tmp_path: Path) -> None:
    study = load_study(written(tmp_path, SWEEP.replace(FAILING, "")))
    [point, *_] = points_of(study, {"load": 1})
    rounds = 2000

    def inquiry() -> Inquiry:
        for _ in range(rounds):
            [found] = yield [point]
        return found.row

    runner = StudyRunner(Store(tmp_path / "out", study), StudyProgress(1), lambda: None)
    runner.run([inquiry()], None)
    assert runner.answers == [runner.findings[0].row]
