"""Steps as a trace: is it one that Perfetto shows as meant, and does it say what the steps were?"""

import gzip
import itertools
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from serving.cli.main import main
from serving.telemetry.chrome_trace import chrome
from serving.telemetry.chrome_trace.events import events_of
from serving.telemetry.step_log import StepLog
from serving.types import Request, StepRecord
from tests.serving.telemetry.test_step_log import RECORD
from tests.serving.telemetry.tracing.emulate import Edge

Event = dict[str, Any]


@pytest.fixture(scope="module")
def records() -> list[StepRecord]:
    """What a device does that drafts for two requests and more, with an idle time in the middle; and one that rests."""
    edge = Edge("tau")
    for i in range(8):
        edge.submit(Request(str(i), 0.1 * i, 150, 40))
    for i, tokens in ((8, 40), (9, 500)):
        edge.submit(Request(str(i), 30.0, 150, tokens))
    made = edge.run().records
    return [*made, msgspec.structs.replace(made[0], device=3, start_s=2.0)]


@pytest.fixture(scope="module")
def events(records: list[StepRecord]) -> list[Event]:
    return [json.loads(msgspec.json.encode(event)) for event in events_of(records)]


def tracks(events: list[Event], ph: str) -> dict[tuple[int, Any], list[Event]]:
    """Events of a kind by their track: a thread, or a counter."""
    found = defaultdict(list)
    for event in events:
        if event["ph"] == ph:
            found[event["pid"], event["name"] if ph == "C" else event["tid"]].append(event)
    return found


def named(events: list[Event], what: str) -> dict[Any, str]:
    """Names of processes, or of threads, by their number."""
    key = "pid" if what == "process_name" else "tid"
    return {event[key]: event["args"]["name"] for event in events if event["name"] == what}


def on(events: list[Event], track: str, ph: str = "X") -> list[Event]:
    """Events on the track of a name of the first device."""
    (tid,) = [tid for tid, name in named(events, "thread_name").items() if name == track and tid < 20]
    return [event for event in events if event["ph"] == ph and event.get("tid") == tid]


def ns(event: Event, key: str) -> int:
    return round(event[key] * 1000)


def test_every_event_is_complete_and_belongs_to_a_named_track(events: list[Event]) -> None:
    processes, threads = named(events, "process_name"), named(events, "thread_name")
    assert processes == {1: "device 0", 4: "device 3"} and len(threads) == 6
    needed = {"X": {"ts", "dur", "tid"}, "i": {"ts", "tid", "s"}, "C": {"ts", "args"}, "M": {"args"}}
    for event in events:
        assert needed[event["ph"]] | {"name", "pid"} <= set(event)
        assert event["pid"] in processes and event.get("tid", next(iter(threads))) in threads
        assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0
        if event["ph"] == "C":
            assert isinstance(event["args"]["value"], int | float)


def test_slices_of_a_track_nest_and_none_overlap(events: list[Event]) -> None:
    for track, slices in tracks(events, "X").items():
        open_ends: list[int] = []
        ordered = sorted(slices, key=lambda e: (ns(e, "ts"), -ns(e, "dur")))
        assert ordered == slices or named(events, "thread_name")[track[1]] == "mode"
        for event in ordered:
            start, end = ns(event, "ts"), ns(event, "ts") + ns(event, "dur")
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], (track, event)
            open_ends.append(end)
        assert max(len(open_ends), 1) <= 2


def test_time_goes_on_along_each_counter_and_track(events: list[Event]) -> None:
    for kind in ("C", "X", "i"):
        for track, found in tracks(events, kind).items():
            times = [event["ts"] for event in found]
            assert times == sorted(times), (kind, track)


def test_stages_fill_their_step(events: list[Event], records: list[StepRecord]) -> None:
    slices = on(events, "steps")
    steps = [event for event in slices if event["args"]]
    assert len(steps) == len(records) - 1
    for step, record in zip(steps, records, strict=False):
        start, end = ns(step, "ts"), ns(step, "ts") + ns(step, "dur")
        inside = [s for s in slices if s is not step and start <= ns(s, "ts") < end]
        assert sum(ns(s, "dur") for s in inside) == pytest.approx(end - start, abs=5)
        stages = [s["name"] for s in inside]
        assert stages[:2] == ["draft", "verify"] if record.drafts else stages == [record.phase]
        if record.drafts:
            assert ns(inside[0], "dur") == pytest.approx(record.draft_s * 1e9, abs=2)
            assert ns(inside[1], "dur") == pytest.approx(record.target_s * 1e9, abs=2)
            assert step["args"]["accepted"] == record.accepted


def test_modes_are_told_by_runs_and_their_changes_by_marks(events: list[Event], records: list[StepRecord]) -> None:
    runs = on(events, "mode")
    assert sum(run["args"]["steps"] for run in runs) == len(records) - 1
    assert {"AR decode", "SD decode"} <= {run["name"] for run in runs}
    changes = [mark["name"] for mark in on(events, "events", "i") if " to " in mark["name"]]
    modes = [mode for mode, _ in itertools.groupby(record.mode for record in records[:-1])]
    assert changes == [f"{a.upper()} to {b.upper()}" for a, b in itertools.pairwise(modes)]


def test_counters_say_what_the_steps_did_and_that_an_idle_device_does_nothing(
    events: list[Event], records: list[StepRecord]
) -> None:
    counters = tracks(events, "C")
    first = records[0]
    power = counters[1, "power (W)"]
    assert power[0]["args"]["value"] == pytest.approx(sum(first.energy_j) / first.latency_s)
    rate = counters[1, "slow tier (GB/s)"][0]["args"]["value"]
    assert rate == pytest.approx(first.traffic_bytes[1] / first.latency_s / 1e9)
    batch = [(event["ts"], event["args"]["value"]) for event in counters[1, "batch"]]
    assert batch[-1][1] == 0
    # Before the two that come at 30 s it was idle.
    idle = [at for at, value in batch if value == 0]
    assert len(idle) == 2 and idle[0] < 30e6
    assert max(value for _, value in batch) == max(record.batch for record in records)
    for name in ("waiting", "KV cache (tokens)", "expert hits (%)", "accepted drafts (%)", "fast tier (GB/s)"):
        assert (1, name) in counters
    assert all(0 <= event["args"]["value"] <= 100 for event in counters[1, "accepted drafts (%)"])


def test_what_happens_to_a_device_has_a_mark() -> None:
    step = msgspec.structs.replace(
        RECORD, preemptions=1, underruns=3, swaps=1, spilled_tokens=64, fetched_tokens=32, moved_s=0.001, update_s=0.002
    )
    step = msgspec.structs.replace(step, swap_s=0.0007, swap_j=0.03)
    events = list(events_of([step]))
    marks = {event["name"]: event["args"]["count"] for event in events if event["ph"] == "i"}
    assert marks == {"expert swap": 1, "preemption": 1, "KV spilled": 64, "KV fetched": 32, "underrun": 3}
    took = next(event["args"] for event in events if event["name"] == "expert swap")
    assert took == {"count": 1, "ms": pytest.approx(0.7), "mJ": pytest.approx(30)}
    stages = [event["name"] for event in events if event["ph"] == "X" and not event["args"]]
    assert stages == ["move", "update"]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["foreserve", "trace", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_tiers_have_the_names_of_the_hardware_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with StepLog(tmp_path / "steps.jsonl") as log:
        log.on_step(RECORD)
    out = tmp_path / "trace.json"
    assert run(monkeypatch, str(tmp_path / "steps.jsonl"), "--out", str(out), "--hardware", "stratum-s") == 0
    text = out.read_text()
    assert "mono3d (GB/s)" in text and "interposer (GB/s)" in text and "tier (GB/s)" not in text
    assert run(monkeypatch, str(tmp_path / "steps.jsonl"), "--out", str(out), "--hardware", "no-such") == 2


@pytest.mark.parametrize("log_name", ["steps.jsonl", "steps.parquet"])
@pytest.mark.parametrize("out_name", ["trace.json", "trace.json.gz"])
def test_the_command_makes_a_trace_of_a_log(
    records: list[StepRecord],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    log_name: str,
    out_name: str,
) -> None:
    with StepLog(tmp_path / log_name) as log:
        for record in records:
            log.on_step(record)
    out = tmp_path / out_name
    assert run(monkeypatch, str(tmp_path / log_name), "--out", str(out)) == 0
    assert f"{len(records):,} steps of devices 0, 3" in capsys.readouterr().out
    text = gzip.decompress(out.read_bytes()) if out.suffix == ".gz" else out.read_bytes()
    trace = json.loads(text)
    assert trace["displayTimeUnit"] == "ms"
    assert len(trace["traceEvents"]) == len(list(events_of(records)))


@pytest.mark.parametrize(
    ("content", "out", "said"),
    [
        (None, "t.json", ["log.jsonl", "No such file"]),
        (b"", "t.json", ["log.jsonl", "no steps"]),
        (b"hello\n", "t.json", ["log.jsonl, line 1,"]),
        (msgspec.json.encode(msgspec.structs.asdict(RECORD)) + b"\n{}\n", "t.json", ["log.jsonl, line 2,"]),
        (msgspec.json.encode(msgspec.structs.asdict(RECORD)), "no/such/t.json", ["--out", "no/such/t.json"]),
        (msgspec.json.encode(msgspec.structs.asdict(RECORD)), "log.jsonl", ["--out", "log.jsonl"]),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: bytes | None,
    out: str,
    said: list[str],
) -> None:
    log = tmp_path / "log.jsonl"
    if content is not None:
        log.write_bytes(content)
    assert run(monkeypatch, str(log), "--out", str(tmp_path / out)) == 2
    complaint = capsys.readouterr().err
    assert all(word in complaint for word in said) and complaint.count("\n") == 1, complaint
    assert not (tmp_path / "t.json").exists()
    assert content is None or log.read_bytes() == content


def broken_off() -> Iterator[Event]:
    yield {"ph": "M"}
    raise OSError("it breaks off")


def test_only_a_file_that_was_cut_short_is_removed(tmp_path: Path) -> None:
    short, meant, link, pipe = (tmp_path / name for name in ("t.json", "meant.json", "link.json", "pipe"))
    link.symlink_to(meant)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for path in (short, link, pipe):
        with pytest.raises(OSError, match="breaks off"):
            chrome.write(path, broken_off())
    os.close(reader)
    assert not short.exists() and link.is_symlink() and pipe.is_fifo()


def test_a_file_that_cannot_be_opened_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "t.json"
    theirs.write_text("theirs")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PermissionError):
        chrome.write(theirs, [])
    monkeypatch.undo()
    assert theirs.read_text() == "theirs"
