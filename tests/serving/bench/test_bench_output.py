"""Are all figures of `foreserve bench` shown, whatever their form, and its servers those that it can load?"""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from rich.console import Console

from serving.bench import servers
from serving.bench.command import PARTS, show
from serving.bench.servers import Servers
from serving.scenario.scenario import BUNDLED_MODEL, Scenario
from serving.security.access import Access


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
