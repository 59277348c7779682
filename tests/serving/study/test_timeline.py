"""Does a timeline keep what it is told, however long a run becomes?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.study.timeline import BINS, COLUMNS, Timeline
from serving.types import StepRecord

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


def test_modes_are_told_apart() -> None:
    timeline = Timeline()
    for index, (mode, phase) in enumerate([("ar", "prefill"), ("ar", "decode"), ("sd", "decode"), ("ar", "mixed")]):
        timeline.add(record(index * 0.25, 0.25, 1, mode, phase))
    seconds = [(row["prefill_s"], row["ar_s"], row["sd_s"]) for row in timeline.rows()[:4]]
    assert seconds == [(0.25, 0, 0), (0, 0.25, 0), (0, 0, 0.25), (0.25, 0, 0)]
