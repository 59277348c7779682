"""The step log: what is written is read again."""

from pathlib import Path

from serving.flow import StepRecord
from serving.step_log import StepLog, read_step_log

RECORD = StepRecord(
    device=1,
    mode="ar",
    phase="decode",
    start_s=1.5,
    latency_s=0.02,
    batch=3,
    new_tokens=3,
    energy_j=(1.0, 2.0, 3.0, 4.0, 5.0),
    traffic_bytes=(6.0, 7.0),
    expert_lookups=8.0,
    expert_hits=4.0,
    late_real_s=1e-5,
    underruns=0,
    waiting=2,
    kv_tokens=100,
    preemptions=0,
    slips=0,
)


def test_steps_are_read_as_they_were_written(tmp_path: Path) -> None:
    with StepLog(tmp_path / "steps.jsonl") as log:
        log(RECORD)
        log(RECORD)
    records = read_step_log(tmp_path / "steps.jsonl")
    assert len(records) == 2
    assert (records[0].device, records[0].latency_s, list(records[0].energy_j)) == (1, 0.02, [1.0, 2.0, 3.0, 4.0, 5.0])
