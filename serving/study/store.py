"""A study's folder. Each point is kept as soon as it is made, by its key, so that a study that was ended goes on where
it was; tables and the report are made of those at the end.

    study.toml, about.json      what was asked, and by which versions it was answered
    points/KEY.msgpack          a point that was made
    points.csv|parquet          one row a point            answers.csv     the study's answers
    requests.parquet            one row a request          timeline.parquet    what devices did over time
"""

import json
import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from serving.presentation.csv_rows import write_csv
from serving.presentation.json_text import json_text
from serving.process.output_folder import draft_of, make_folder, write_text, writing
from serving.scenario.listen_options import KEYS
from serving.security.key_names import hidden, key_places
from serving.study.axes import Settings, as_toml
from serving.study.code_digest import code_digest
from serving.study.point import Point
from serving.study.point_caveats import point_caveats
from serving.study.questions import by_settings
from serving.study.recorder import BIN_COLUMNS
from serving.study.run import Run, pack, unpack
from serving.study.study import Finding, Study
from serving.study.summary import Row
from serving.study.tables import table

# Of a run in which nothing was done too.
BINS = pa.schema([(name, pa.float64()) for name in ("start_s", "width_s", *BIN_COLUMNS)])
ABOUT = "about.json"
PACKAGES = ("foreserve", "numpy", "ray", "optuna", "pyarrow")


class Store:
    """The folder of one study."""

    def __init__(self, folder: Path, study: Study) -> None:
        """Make the folder, and say in it what is asked. Raise UsageError if that fails."""
        for each in (folder, folder / "points"):
            make_folder("--out", each)
        self.folder = folder
        self._other_code = _other_code_of(folder / ABOUT)
        write_text("--out", folder / "study.toml", study.text)
        write_text("--out", folder / ABOUT, json_text(about(study), indent=1))

    def get(self, key: str) -> Run | None:
        """Return the run of a point that was made before; None if it was not, or not to the end."""
        try:
            return unpack(self._path(key).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None

    def is_of_other_code(self, point: Point) -> bool:
        """Tell whether a point was kept here by the study's last run, and other code made it: it must be made again."""
        return bool(self._other_code) and self._path(point.key_of(self._other_code)).exists()

    def forget(self) -> None:
        """Keep none of the points."""
        for path in (*self.folder.glob("points/*.msgpack"), *self.folder.glob("points/.*.msgpack.*")):
            path.unlink()

    def put(self, key: str, run: Run) -> None:
        """Keep a point: the whole of it, or (if this is killed now) none. Raise CommandFailed if the disk is full."""
        path = self._path(key)
        # Under a name of this process, as another one may run the same study.
        with writing(path, "The points before it are kept."), draft_of(path) as file:
            file.write(pack(run))

    def write_tables(self, findings: list[Finding], answers: list[Row]) -> list[Path]:
        """Write all tables, the answers as they are told; return their paths."""
        rows = [_cells(point_row(finding)) for finding in findings]
        paths = [self.folder / name for name in ("points.csv", "answers.csv", "points.parquet")]
        paths += [self.folder / name for name in ("requests.parquet", "timeline.parquet")]
        write_csv(rows, paths[0])
        write_csv(list(map(_cells, answers)), paths[1])
        pq.write_table(pa.Table.from_pylist(_uniform(rows)), paths[2])
        keys = list(dict.fromkeys(finding.point.key for finding in findings if not finding.error))
        _concatenate(((key, table(run.requests_file)) for key, run in self._runs(keys)), paths[3])
        _concatenate(((key, pa.Table.from_pylist(run.bins, BINS)) for key, run in self._runs(keys)), paths[4])
        return paths

    def _runs(self, keys: Iterable[str]) -> Iterator[tuple[str, Run]]:
        for key in keys:
            if (run := self.get(key)) is not None:
                yield key, run

    def _path(self, key: str) -> Path:
        return self.folder / "points" / f"{key}.msgpack"


def _other_code_of(path: Path) -> str:
    """Return the digest of the code that a folder's last run was made by, if it is another than this; otherwise ""."""
    try:
        code = json.loads(path.read_text(encoding="utf-8"))["code"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    return code if isinstance(code, str) and code != code_digest() else ""


def point_row(finding: Finding) -> Row:
    """Return the row of a point in a table: its key, what tells it from others, what came of it."""
    point = finding.point
    told = {"load": point.load, "error": finding.error, "caveats": caveats_of([finding])}
    return {"point": point.key} | point.names | told | finding.row


def answer_row(row: Row, findings: list[Finding]) -> Row:
    """Return an answer's row in a table, with the caveats of the points that it is made of."""
    return row | {"caveats": caveats_of(findings_of(row, findings))}


def findings_of(row: Row, findings: list[Finding]) -> list[Finding]:
    """Return the points that an answer's row is made of: all seeds of its place. None if it says why there is none."""
    if row.get("error"):
        return []
    return [
        finding
        for finding in findings
        if all(row.get(name, value) == value for name, value in finding.point.names.items())
    ]


def caveats_of(findings: list[Finding]) -> str:
    """Return the caveats of points that were made, in one text; seeds together."""
    found = [each for _, runs in by_settings(findings) for each in point_caveats(runs)]
    return "; ".join(dict.fromkeys(found))


def about(study: Study) -> dict[str, Any]:
    """Return what makes a study repeatable: the scenario as it stands but for its keys, the workload, and the versions
    of what ran it."""
    places = places_in(study)
    return {
        "name": study.name,
        "title": study.title,
        "scenario": _without_keys(study.scenario),
        "workload": hidden(study.workload.values, places),
        "axes": hidden(study.axes, places),
        "variants": {name: hidden(_without_keys(settings), places) for name, settings in study.variants.items()},
        "seeds": study.seeds,
        "targets": study.targets._asdict(),
        "requests": study.requests,
        "versions": {name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
        "code": code_digest(),
    }


def places_in(study: Study) -> dict[str, str]:
    """Return the API keys of a study's scenarios, each with its place: workloads share requests out to keys by name."""
    return key_places([study.scenario, *({**study.scenario, **each} for each in study.variants.values())])


def _without_keys(settings: Settings) -> Settings:
    return {name: value for name, value in settings.items() if name not in KEYS}


def _cells(row: Row) -> Row:
    """Return a row as files have it: lists and tables of a setting as a study's own, from which it reads them."""
    return {name: as_toml(value) if isinstance(value, list | tuple | dict) else value for name, value in row.items()}


def _uniform(rows: list[Row]) -> list[Row]:
    """Rows whose columns are each of one kind: numbers, or (if there is any other value) words."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    words = {name for name in names if any(isinstance(row.get(name), str) for row in rows)}
    return [
        {name: str(row[name]) if name in words and name in row else row.get(name) for name in names} for row in rows
    ]


def _concatenate(tables: Iterator[tuple[str, pa.Table]], path: Path) -> None:
    """Concatenate tables, each with its point's key, without having them all in memory."""
    path.unlink(missing_ok=True)
    writer: pq.ParquetWriter | None = None
    for key, each in tables:
        keyed = each.add_column(0, "point", pa.array([key] * each.num_rows, pa.string()))
        writer = writer or pq.ParquetWriter(path, keyed.schema, compression="zstd")
        writer.write_table(keyed)
    if writer is not None:
        writer.close()
