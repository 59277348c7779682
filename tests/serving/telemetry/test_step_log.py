"""The step log: what is written is read again, and what is no step log is refused in a sentence."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from serving.telemetry.step_log import StepLog, StepLogError, read_step_log, steps_of
from serving.telemetry.step_table import GROUP
from serving.types import StepRecord

RECORD = StepRecord(
    device=1,
    mode="sd",
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
    drafts=2,
    drafted=10,
    accepted=7,
    accepted_by=[0, 0, 1, 0, 0, 1],
    news_s=[0.002],
)


@pytest.mark.parametrize("name", ["steps.jsonl", "steps.parquet"])
@pytest.mark.parametrize("count", [0, 2, 2 * GROUP + 1])
def test_steps_are_read_as_they_were_written(tmp_path: Path, name: str, count: int) -> None:
    records = [msgspec.structs.replace(RECORD, start_s=float(i)) for i in range(count)]
    with StepLog(tmp_path / name) as log:
        for record in records:
            log.on_step(record)
    assert read_step_log(tmp_path / name) == records


def test_a_table_has_a_column_for_each_field_and_a_group_for_so_many_rows(tmp_path: Path) -> None:
    with StepLog(tmp_path / "steps.parquet") as log:
        for _ in range(GROUP + 1):
            log.on_step(RECORD)
    with pq.ParquetFile(tmp_path / "steps.parquet") as file:
        assert file.schema_arrow.names == list(StepRecord.__struct_fields__)
        assert file.num_row_groups == 2
        assert file.read().column("energy_j")[0].as_py()["static_j"] == 5.0


def test_a_line_that_lacks_what_has_a_default_is_a_step_of_an_older_version(tmp_path: Path) -> None:
    said = msgspec.structs.asdict(RECORD)
    del said["accepted_by"], said["moved_s"]
    (tmp_path / "old.jsonl").write_bytes(msgspec.json.encode(said) + b"\n")
    assert read_step_log(tmp_path / "old.jsonl") == [msgspec.structs.replace(RECORD, accepted_by=[])]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b'{"device": 1}\n', ["a.jsonl, line 1,", "`mode`"]),
        ("a.jsonl", b"hello\n", ["a.jsonl, line 1,"]),
        ("a.jsonl", b"\xff\xfe\n", ["a.jsonl, line 1,"]),
        ("a.jsonl", msgspec.json.encode(msgspec.structs.asdict(RECORD)) + b'\n{"dev\n', ["a.jsonl, line 2,"]),
        ("a.parquet", b"hello hello hello", ["a.parquet cannot be read", "Parquet"]),
        ("none.jsonl", None, ["none.jsonl cannot be read", "No such file"]),
        ("none.parquet", None, ["none.parquet cannot be read", "No such file"]),
    ],
)
def test_what_is_no_step_log_is_refused_in_a_sentence(
    tmp_path: Path, name: str, content: bytes | None, said: list[str]
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(StepLogError) as refused:
        list(steps_of(tmp_path / name))
    assert all(word in str(refused.value) for word in said), refused.value


def test_a_table_of_something_else_is_no_step_log(tmp_path: Path) -> None:
    pq.write_table(pa.table({"device": [1, 2]}), tmp_path / "other.parquet")
    with pytest.raises(StepLogError, match=r"other\.parquet, row 1,.*mode"):
        read_step_log(tmp_path / "other.parquet")


def test_half_a_line_at_the_end_is_left_out_and_anywhere_else_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "steps.jsonl"
    with StepLog(path) as log:
        for _ in range(3):
            log.on_step(RECORD)
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    assert read_step_log(path) == [RECORD] * 2
    assert "line 3" in caplog.text
    path.write_bytes(whole[:100] + b"\n" + whole)
    with pytest.raises(StepLogError, match="line 1"):
        read_step_log(path)
