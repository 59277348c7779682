"""Are all figures of `foreserve bench` shown, whatever their form, and its servers those that it can load?"""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx
import pytest
from rich.console import Console

from serving.bench import command, servers
from serving.bench.command import PARTS, show
from serving.bench.live import LIVE, Streams, live
from serving.bench.servers import Servers
from serving.cli.main import make_parser
from serving.scenario.scenario import BUNDLED_MODEL, Scenario
from serving.security.access import Access
from serving.usage_error import UsageError


def shown(results: dict[str, object]) -> list[str]:
    console = Console(width=80, file=io.StringIO())
    show(results, console)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_rows_need_not_have_the_same_figures() -> None:
    _, probe = PARTS["probe"]
    title, heads, *rows = shown({"probe": probe(Servers(str(BUNDLED_MODEL)), True)})
    assert title == "probe" and heads.split() == ["draft", "batch", "new_us", "again_us", "of_64_us"]
    assert [row.split()[0] for row in rows] == ["none", "eagle", "elastic"]


def test_figures_within_figures_have_a_line_each() -> None:
    assert shown({"virtual": {"steps": 1234, "fleet": {"devices": 4, "wall_s": 0.5}, "of": "x"}}) == [
        "virtual: steps: 1,234",
        "virtual: fleet: devices: 4",
        "virtual: fleet: wall_s: 0.5",
        "virtual: of: x",
    ]


def test_a_part_that_fails_costs_no_other(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def failing(_: Servers, quick: bool) -> None:
        raise httpx.ReadTimeout("nobody answers")

    parts = {"pacing": ("Pacing", failing), "probe": ("Answers", lambda servers, quick: [{"new_us": 1}])}
    monkeypatch.setattr(command, "PARTS", parts)
    args = make_parser().parse_args(["bench", "--json"])
    assert args.run(args) == 1
    said = capsys.readouterr()
    assert json.loads(said.out) == {"pacing": {"failed": "nobody answers"}, "probe": [{"new_us": 1}]}
    assert "pacing failed: nobody answers" in said.err
    assert shown(json.loads(said.out))[0] == "pacing: failed: nobody answers"
    args.only = "probe"
    assert args.run(args) == 0


def test_streams_that_fail_cost_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [RuntimeError("the devices' own pace is not known"), UsageError("a rate of 0"), httpx.ReadTimeout("late")]

    def seen(_: Servers, streams: Streams, output_len: int) -> dict[str, float]:
        raise errors[len(rows) % len(errors)]

    rows: list[dict[str, object]] = []
    monkeypatch.setattr("serving.bench.live._seen", seen)
    for row in live(Servers(str(BUNDLED_MODEL)), 1):
        rows.append(row)
    assert [row["failed"] for row in rows[:3]] == [str(error) for error in errors] and len(rows) >= len(LIVE)


def test_servers_to_measure_ask_for_no_key_of_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("FORESERVE_API_KEYS", "FORESERVE_ADMIN_KEY", "VLLM_API_KEY")
    for name in names:
        monkeypatch.setenv(name, f"of-{name}")

    @contextmanager
    def server(*_: str, quiet: bool, environment: Mapping[str, str]) -> Iterator[None]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield

    monkeypatch.setattr(servers, "server", server)
    with Servers(str(BUNDLED_MODEL)).default(1):
        assert Access.of(Scenario()) == Access()
