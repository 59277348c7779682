"""Does a timeline keep what it is told, however long a run becomes?"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from serving.scenario.scenario import Scenario
from serving.study import load_study, run_study
from serving.study.report import svg
from serving.study.run import simulate
from serving.study.timeline import BINS, COLUMNS, Timeline
from serving.types import StepRecord
from serving.workload.spec import workload_of
from serving.workload.table import WorkloadTable

STEPS = st.lists(
    st.tuples(
        st.floats(0.0, 50.0),  # a pause before it
        st.floats(1e-4, 30.0),
        st.integers(1, 64),
        st.sampled_from([("ar", "decode"), ("sd", "decode"), ("ar", "prefill"), ("ar", "mixed")]),
    ),
    min_size=1,
    max_size=60,
)


def record(start_s: float, latency_s: float, batch: int, mode: str, phase: str) -> StepRecord:
    return StepRecord(
        device=0,
        mode=mode,
        phase=phase,
        start_s=start_s,
        latency_s=latency_s,
        batch=batch,
        new_tokens=batch * 3,
        energy_j=(1.0, 0.5, 0.0, 0.0, 0.0),
        traffic_bytes=(1.0, 2.0),
        expert_lookups=10.0,
        expert_hits=4.0,
        late_real_s=0.0,
        underruns=0,
        waiting=2,
        kv_tokens=100,
        preemptions=0,
        slips=0,
        steps=3,
    )


@given(STEPS)
def test_sums_over_the_bins_are_those_of_the_steps(steps: list[tuple[float, float, int, tuple[str, str]]]) -> None:
    timeline, at_s, records = Timeline(), 0.0, []
    for pause_s, latency_s, batch, (mode, phase) in steps:
        records.append(record(at_s + pause_s, latency_s, batch, mode, phase))
        at_s += pause_s + latency_s
        timeline.add(records[-1])
    rows = timeline.rows()
    assert len(rows) <= BINS and set(rows[0]) == {"start_s", "width_s", *COLUMNS}
    busy_s = sum(row["prefill_s"] + row["ar_s"] + row["sd_s"] for row in rows)
    assert busy_s == pytest.approx(sum(each.latency_s for each in records))
    assert sum(row["joules"] for row in rows) == pytest.approx(1.5 * len(records))
    assert sum(row["steps"] for row in rows) == pytest.approx(3 * len(records))
    assert sum(row["computed_tokens"] for row in rows) == pytest.approx(sum(each.new_tokens for each in records))
    # One device is in at most one step at a time.
    assert all(row["prefill_s"] + row["ar_s"] + row["sd_s"] <= row["width_s"] * (1 + 1e-9) for row in rows)
    assert [row["start_s"] for row in rows] == [index * rows[0]["width_s"] for index in range(len(rows))]


@given(st.lists(st.tuples(st.floats(0.0, 400.0), st.floats(0.0, 400.0)), max_size=40))
def test_a_wait_is_in_the_bins_that_it_lasted_in(waits: list[tuple[float, float]]) -> None:
    timeline = Timeline()
    for from_s, for_s in waits:
        timeline.wait(from_s, from_s + for_s)
    timeline.add(record(1000.0, 1.0, 1, "ar", "decode"))
    rows = timeline.rows()
    for row in rows:
        begin_s, end_s = row["start_s"], row["start_s"] + row["width_s"]
        within = (min(from_s + for_s, end_s) - max(from_s, begin_s) for from_s, for_s in waits)
        assert row["waiting_s"] == pytest.approx(sum(each for each in within if each > 0), abs=1e-9)


@pytest.mark.parametrize("output", [20, 400])
def test_who_waits_for_a_full_device_is_counted_from_its_arrival_on(output: int) -> None:
    workload = {"prompt": 200, "output": output, "requests": 100, "arrivals": {"kind": "poisson", "rate_per_s": 1.0}}
    made = workload_of(WorkloadTable(workload, Path("workload.toml")))
    run = simulate(Scenario(max_num_seqs=8, mode="fixed-ar"), made)
    assert run.timeline.waiting_s.sum() == pytest.approx(run.requests.queue_s.sum(), rel=1e-6)


@pytest.mark.parametrize(("devices", "faults"), [(1, ()), (2, ("lost: device=1, at=10",))])
def test_who_is_preempted_or_loses_its_device_waits_again(devices: int, faults: tuple[str, ...]) -> None:
    workload = {"prompt": 3000, "output": 3000, "requests": 30 * devices}
    arrivals = {"kind": "poisson", "rate_per_s": 60.0}
    made = workload_of(WorkloadTable(workload | {"arrivals": arrivals}, Path("workload.toml")))
    scenario = Scenario(devices=devices, hardware="elmoe3d-4gb", mode="fixed-ar", kv_tier="fast", faults=faults)
    run = simulate(scenario, made)
    assert run.summary["preemptions"] > 0
    # Whoever has begun is in a step, or waits again.
    under_way_s = (run.requests.e2e_s - run.requests.queue_s).sum()
    again_s = run.timeline.waiting_s.sum() - run.requests.queue_s.sum()
    assert again_s > 100
    assert run.timeline.sequence_s.sum() + again_s == pytest.approx(under_way_s, rel=0.01)


def test_a_device_is_lost_from_its_fault_to_its_end_or_the_last_token() -> None:
    workload = {"prompt": 20, "output": 60, "requests": 80, "arrivals": {"kind": "poisson", "rate_per_s": 2.0}}
    made = workload_of(WorkloadTable(workload, Path("workload.toml")))
    faults = ("lost: device=1, at=10.1, for=20", "lost: device=0, at=31")
    run = simulate(Scenario(devices=2, faults=faults), made)
    assert run.summary["span_s"] > 32
    for row in run.bins:
        begin_s, end_s = row["start_s"], min(row["start_s"] + row["width_s"], run.summary["span_s"])
        lost_s = max(0.0, min(end_s, 30.1) - max(begin_s, 10.1)) + max(0.0, end_s - max(begin_s, 31.0))
        assert row["lost_s"] == pytest.approx(lost_s)


@pytest.mark.parametrize(("axes", "named"), [('faults = [["lost: device=1, at=1"]]', True), ("load = [1]", False)])
def test_a_device_that_is_lost_is_not_drawn_as_idle(
    axes: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels: list[str] = []

    class Told(Figure):
        def savefig(self, *args: object, **options: object) -> None:
            labels.extend(text.get_text() for legend in self.legends for text in legend.get_texts())
            super().savefig(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(svg, "Figure", Told)
    (tmp_path / "study.toml").write_text(
        f'question = "sweep"\nslo.ttft_ms = 60000\nscenario.devices = 2\naxes.{axes}\n'
        'workload = { requests = 9, arrivals = { kind = "poisson", rate_per_s = 2 }, prompt = 20, output = 10 }\n'
    )
    run_study(load_study(tmp_path / "study.toml"), tmp_path / "out")
    assert "idle" in labels and ("lost" in labels) == named


def test_modes_are_told_apart() -> None:
    timeline = Timeline()
    for index, (mode, phase) in enumerate([("ar", "prefill"), ("ar", "decode"), ("sd", "decode"), ("ar", "mixed")]):
        timeline.add(record(index * 0.25, 0.25, 1, mode, phase))
    seconds = [(row["prefill_s"], row["ar_s"], row["sd_s"]) for row in timeline.rows()[:4]]
    assert seconds == [(0.25, 0, 0), (0, 0.25, 0), (0, 0, 0.25), (0.25, 0, 0)]
