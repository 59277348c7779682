"""The Trace Event Format of Chrome, as far as it is used here; Perfetto reads it too.

Each device is a process, and each of its tracks a thread or, by its name, a counter. Instants go in as whole
nanoseconds and come out as microseconds, in which the format counts.
"""

import gzip
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

Event = dict[str, Any]
# Level 9, gzip's own choice, takes three times as long for a file that is little smaller.
COMPRESSION = 5


def span(track: tuple[int, int], name: str, start_ns: int, end_ns: int, args: Mapping[str, Any]) -> Event:
    """Return a slice. Of those on one track, some may lie within others, but none overlap in part."""
    pid, tid = track
    place = {"pid": pid, "tid": tid, "ts": start_ns / 1000, "dur": (end_ns - start_ns) / 1000}
    return {"ph": "X", "name": name, **place, "args": args}


def instant(track: tuple[int, int], name: str, at_ns: int, args: Mapping[str, Any]) -> Event:
    """Return a mark on a track."""
    pid, tid = track
    return {"ph": "i", "s": "t", "name": name, "pid": pid, "tid": tid, "ts": at_ns / 1000, "args": args}


def counter(pid: int, name: str, at_ns: int, value: float) -> Event:
    """Return a value that holds from an instant on."""
    return {"ph": "C", "name": name, "pid": pid, "ts": at_ns / 1000, "args": {"value": value}}


def names(pid: int, process: str, threads: Mapping[int, str]) -> list[Event]:
    """Return the events that name a process and its threads, in the order of display."""
    told: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": process}},
        {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}},
    ]
    for tid, thread in threads.items():
        told.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}})
        told.append({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}})
    return told


def write(path: Path, events: Iterable[Event]) -> None:
    """Write a trace, one event after the other; compressed if its name ends in .gz. No file that an error has cut short
    is left; a device, a pipe or a link is, and a file that could not be opened."""
    encode = msgspec.json.Encoder().encode
    opened = whole = False
    try:
        with gzip.open(path, "wb", COMPRESSION) if path.suffix == ".gz" else path.open("wb") as file:
            opened = True
            file.write(b'{"displayTimeUnit":"ms","otherData":{"times":"emulated"},"traceEvents":[')
            comma = b"\n"
            for event in events:
                file.write(comma + encode(event))
                comma = b",\n"
            file.write(b"\n]}\n")
        whole = True
    finally:
        if opened and not whole and path.is_file() and not path.is_symlink():
            path.unlink()
