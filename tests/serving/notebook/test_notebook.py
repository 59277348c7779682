"""From Python: is each job three lines, with rows and columns that others take, nothing printed, and no end?"""

import _thread
import json
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import matplotlib as mpl
import msgspec
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from serving.notebook import compare, explain, state, study
from serving.study import load_study, run_study
from serving.study.summary import COLUMNS
from serving.study.terminal_table import to_json
from serving.usage_error import UsageError
from tests.serving.cli.test_top import busy_status

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "examples" / "foreserve.ipynb"
STUDY = """
question = "sweep"
slo = { ttft_ms = 600, tpot_ms = 60 }
[axes]
tau = [2, 4]
load = [0.5, 1, 2]
[workload]
requests = 60
arrivals = { kind = "poisson", rate_per_s = 1.5 }
prompt = 150
output = 60
"""
WORKLOAD = STUDY.partition("[workload]")[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    return tmp_path


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address at which a server tells its status, as ours encodes it."""

    class Status(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/foreserve/v1/status" else 404)
            self.end_headers()
            self.wfile.write(msgspec.json.encode(busy_status()))

        def log_message(self, *args: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Status) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()


def taken(columns: dict[str, list[object]], rows: int) -> pd.DataFrame:
    """Return the columns as a data frame; pictures take them too."""
    frame = pd.DataFrame(columns)
    assert len(frame) == rows and list(frame) == list(columns)
    return frame


@pytest.mark.slow
def test_what_infers_a_type_for_each_column_takes_them_too(folder: Path) -> None:
    """As polars and Arrow do, which take no column with values of several types."""
    found = study("study.toml", requests=5), compare(["elmoe3d-8gb", "stratum-s"], "workload.toml", requests=5)
    for columns in (*(each.columns for each in found), explain("stratum-s", model="olmoe-1b-7b").columns):
        for name, values in columns.items():
            kinds = {type(value) for value in values} - {type(None)}
            assert len(kinds) <= 1 or kinds == {int, float}, name


def test_polars_takes_them(folder: Path) -> None:
    polars = pytest.importorskip("polars")
    for columns in (study("study.toml", requests=5).columns, explain("stratum-s", model="olmoe-1b-7b").columns):
        frame = polars.DataFrame(columns)
        assert frame.columns == list(columns) and len(frame) == len(next(iter(columns.values())))


def test_a_study_is_three_lines(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = study("study.toml", requests=30)
    assert found.complete and found.answer.startswith("Most goodput") and found.report.is_file()
    frame = taken(found.columns, 6)
    assert {"tau", "load", "caveats", *COLUMNS} < set(frame)
    assert list(frame.requests) == [30] * 6 and found.rows[0].settings == {"tau": 2, "load": 0.5}
    assert found.rows[0].figures["ttft_p95_s"] == frame.ttft_p95_s[0]
    assert found.verdict == ""  # It compares no modes.
    Figure().subplots().plot("load", "ttft_mean_s", data=found.columns)
    assert capfd.readouterr() == ("", "")


def test_a_study_that_was_read_before_has_as_few_requests_as_are_asked_for(folder: Path) -> None:
    found = study(load_study(folder / "study.toml"), requests=5)
    assert {row.figures["requests"] for row in found.rows} == {5}
    assert found.columns == study("study.toml", requests=5).columns


@pytest.mark.slow
def test_a_study_of_modes_has_a_verdict_on_them(folder: Path) -> None:
    (folder / "study.toml").write_text(STUDY.replace("tau = [2, 4]", 'mode = ["fixed-ar", "fixed-sd"]'))
    found = study("study.toml", requests=20)
    assert found.verdict.startswith("Speculating is") and found.verdict.endswith(".")
    written = to_json(run_study(load_study(Path("study.toml"), 20), Path("results/study")))
    assert found.verdict == written["verdict"]


def test_a_comparison_is_three_lines(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = compare(["elmoe3d-8gb", "stratum-s"], "workload.toml", model="olmoe-1b-7b", requests=20)
    assert found.complete and found.answer[0].startswith("stratum-s is the fastest")
    frame = taken(found.columns, 2)
    assert list(frame.hardware) == ["elmoe3d-8gb", "stratum-s"] and list(frame.requests) == [20, 20]
    assert found.rows[0]["j_per_token"] == frame.j_per_token[0] and frame.caveats[0] == "uniform locality"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("hardware", ["elmoe3d-8gb", "stratum-s", "a6000"])
def test_a_step_is_three_lines(hardware: str, capfd: pytest.CaptureFixture[str]) -> None:
    found = explain(hardware, model="olmoe-1b-7b", batch=4)
    frame = taken(found.columns, len(found.rows))
    assert found.latency_s <= frame.seconds.sum() + 1e-4 and frame.seconds.max() <= found.latency_s
    assert (found.tokens, found.energy_j > 0) == (4, True)
    assert found.unmeasured == ("uniform locality" if hardware == "elmoe3d-8gb" else "")
    drafting = explain("elmoe3d-8gb", batch=1, draft="auto")
    assert drafting.tokens > 2 and {"draft", "target"} <= {row.stage.partition(" ")[0] for row in drafting.rows}
    assert capfd.readouterr() == ("", "")


BEYOND = "Beyond what its paper published: a batch of 24, where 16 is the largest."


@pytest.mark.parametrize(
    ("law", "at_the_bound"),
    [
        ("realisable", "HB serves all 1,146 experts that it holds;"),
        ("published", "Beyond HB: 1,700 experts are to come"),
    ],
)
def test_a_step_says_in_what_it_is_beyond_hb_and_the_paper(law: str, at_the_bound: str) -> None:
    found = explain("elmoe3d-8gb", batch=24, law=law)
    bound, published = found.caveats
    assert bound.startswith(at_the_bound) and published.startswith(BEYOND)
    assert explain("elmoe3d-8gb", batch=4, law=law).caveats == []
    (assumed,) = explain("elmoe3d-8gb", model="olmoe-1b-7b", batch=4, law=law).caveats
    assert assumed.startswith("Assumed: uniform locality")


def test_a_servers_state_is_three_lines(server: str, capfd: pytest.CaptureFixture[str]) -> None:
    now = state(f"{server}/v1/")
    frame = taken(now.columns, 2)
    assert list(frame.hardware) == ["elmoe3d-8gb"] * 2 and now.rows[0].tokens == frame.tokens[0] == 12
    assert now.status.waiting == {"legal": 1}
    assert capfd.readouterr() == ("", "")


def test_what_is_wrong_is_raised_in_a_sentence(folder: Path) -> None:
    with pytest.raises(UsageError, match="Nothing answers at"):
        state("http://127.0.0.1:9")
    with pytest.raises(UsageError, match="only a6000 to compare"):
        compare(["a6000"], "workload.toml")
    with pytest.raises(UsageError, match="--context is 99999999"):
        explain("elmoe3d-8gb", context=99_999_999)
    with pytest.raises(UsageError, match=r"Cannot read the study no\.toml"):
        study("no.toml")


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "x", float("nan")])
def test_what_is_no_whole_number_of_at_least_1_is_refused_by_name(folder: Path, wrong: Any) -> None:
    two = ["elmoe3d-8gb", "stratum-s"]
    asks = {
        "requests": [
            lambda: study("study.toml", requests=wrong),
            lambda: compare(two, "workload.toml", requests=wrong),
        ],
        "cores": [
            lambda: study("study.toml", cores=wrong),
            lambda: compare(two, "workload.toml", cores=wrong),
        ],
        "devices": [lambda: compare(two, "workload.toml", devices=wrong)],
        "batch": [lambda: explain("elmoe3d-8gb", batch=wrong)],
        "context": [lambda: explain("elmoe3d-8gb", context=wrong)],
    }
    for name, ways in asks.items():
        for way in ways:
            with pytest.raises(UsageError, match=rf"^`{name}` is .*: it must be a whole number of at least 1\.$"):
                way()
    assert not (folder / "results").exists()


def test_whole_numbers_may_be_numpys(folder: Path) -> None:
    assert explain("elmoe3d-8gb", batch=np.int64(4)) == explain("elmoe3d-8gb", batch=4)
    assert study("study.toml", requests=np.int32(5)).columns["requests"] == [5] * 6


def test_one_name_is_no_list_of_hardware(folder: Path) -> None:
    with pytest.raises(UsageError, match="`hardware` is 'elmoe3d-8gb': it must be a list of two names or more"):
        compare("elmoe3d-8gb", "workload.toml")
    with pytest.raises(UsageError, match="`hardware` is None: it must be a list of two names or more"):
        compare(None, "workload.toml")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [None, 5, ["elmoe3d-8gb"]])
def test_what_is_no_name_is_refused(folder: Path, wrong: Any) -> None:
    two = ["elmoe3d-8gb", "stratum-s"]
    asks = {
        "hardware": [lambda: explain(wrong), lambda: compare(["elmoe3d-8gb", wrong], "workload.toml")],
        "model": [lambda: explain("elmoe3d-8gb", wrong), lambda: compare(two, "workload.toml", wrong)],
        "draft": [lambda: explain("elmoe3d-8gb", draft=wrong)],
        "law": [lambda: explain("elmoe3d-8gb", law=wrong)],
    }
    for name, ways in asks.items():
        for way in ways:
            with pytest.raises(UsageError, match=rf"^`{name}` is .*: it must be a name\.$"):
                way()


@pytest.mark.slow
def test_ctrl_c_returns_what_is_done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Long enough for the interrupt to come before the last point.
    (folder / "study.toml").write_text(STUDY.replace("requests = 60", "requests = 500"))
    asked, made = load_study(folder / "study.toml"), folder / "results" / "study" / "points"

    def interrupt() -> None:
        while len(list(made.glob("*.msgpack"))) < 2:
            time.sleep(0.01)
        _thread.interrupt_main()

    # Of what was started in the background, Ctrl-C would be ignored.
    heeded = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        found = study(asked)
    finally:
        signal.signal(signal.SIGINT, heeded)
    assert not found.complete and 2 <= len(found.rows) < 6
    assert f"interrupted after {len(found.rows)} points" in found.report.read_text(encoding="utf-8")
    assert len(found.columns["load"]) == len(found.rows)
    again = study(asked)
    assert again.complete and len(again.rows) == 6 and all(row in again.rows for row in found.rows)
    assert "interrupted after" not in again.report.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_example_notebook_runs(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    book = json.loads(NOTEBOOK.read_text())
    assert book["nbformat"] == 4 and "(examples/foreserve.ipynb)" in (ROOT / "README.md").read_text(encoding="utf-8")
    cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in book["cells"] if cell["cell_type"] == "code") and len(cells) >= 4
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    known: dict[str, object] = {}
    with mpl.rc_context({"backend": "agg"}):
        for cell in cells:
            exec(compile(cell.replace("http://127.0.0.1:8000", server), str(NOTEBOOK), "exec"), known)
    assert np.all(np.array(known["now"].columns["batch"]) >= 0)  # type: ignore[attr-defined]
