"""Requests and timelines of single points, read from the study's tables without reading those of the others."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from serving.study.recorder import BIN_COLUMNS
from serving.study.study import Finding

Columns = dict[str, Any]


def requests_of(folder: Path, findings: Iterable[Finding], columns: Iterable[str]) -> Columns:
    """Return columns of the served requests that are judged, of all these runs together."""
    names = [*columns, "judged", "refused"]
    found = _read(folder / "requests.parquet", [finding.point.key for finding in findings], names)
    counts = found["judged"] & (found["refused"] == "")
    return {name: found[name][counts] for name in columns}


def bins_of(folder: Path, finding: Finding, most: int) -> Columns:
    """Return a run's timeline in at most `most` bins: each bin's start (`start_s`), the last one's end (`end_s`),
    device seconds (`device_s`), and sums as in `serving.study.timeline`."""
    names = ["start_s", "width_s", *BIN_COLUMNS]
    found = _read(folder / "timeline.parquet", [finding.point.key], names)
    fold = max(1, -(-len(found["start_s"]) // most))
    ends_s = np.minimum(found["start_s"] + found["width_s"], finding.row["span_s"])
    found["device_s"] = np.maximum(ends_s - found["start_s"], 0) * devices_of(finding)
    sums = {name: np.add.reduceat(found[name], np.arange(0, len(ends_s), fold)) for name in (*BIN_COLUMNS, "device_s")}
    return sums | {"start_s": found["start_s"][::fold], "end_s": float(ends_s[-1])}


def devices_of(finding: Finding) -> int:
    """Return the number of a point's devices."""
    return len(finding.point.scenario.members)


def _read(path: Path, keys: list[str], names: list[str]) -> Columns:
    table = pq.read_table(path, columns=names, filters=[("point", "in", keys)])
    return {name: table[name].to_numpy() for name in names}
