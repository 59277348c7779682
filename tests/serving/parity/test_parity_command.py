"""`foreserve parity` as a user meets it: real Ray, vLLM and load client; and what is wrong gets a sentence."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from serving.cli import main

pytestmark = pytest.mark.alone

SCENARIO = """
token_model = "foreserve-tiny"
tau = 3
speed = 4
http_port = 1     # nobody may listen there, and it does not matter
"""
WORKLOAD = """
requests = 40
[arrivals]
kind = "closed"
users = 4
think_s = { kind = "exponential", mean = 0.3 }
[sessions]
turns = 2
[system]
tokens = 64
[prompt]
kind = "uniform"
min = 16
max = 90
[output]
kind = "uniform"
min = 1
max = 40
[slo]
interactive = 1
"""


Refused = Callable[..., str]


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "serving.cli", "parity", *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=150)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Calls the command in this process, as it starts nothing, and gives what it says on stderr; nothing on stdout."""

    def call(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["foreserve", "parity", *map(str, arguments)])
        monkeypatch.setattr(main, "hide", lambda: None)
        with pytest.raises(SystemExit) as ended:
            main.main()
        out, err = capsys.readouterr()
        assert (ended.value.code, out) == (2, "")
        assert err.startswith("foreserve parity: ") and err.count("\n") == 1
        return err

    return call


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    scenario, workload = tmp_path / "scenario.toml", tmp_path / "workload.toml"
    scenario.write_text(SCENARIO)
    workload.write_text(WORKLOAD)
    return scenario, workload


def check_steps(found: dict[str, Any]) -> None:
    """The schedule is that of virtual time, step by step, with no more excuse than the slips that it tells of."""
    schedule = found["schedule"]
    live = schedule["steps"]["live"]
    assert live["ar"] > 5 and live["sd"] > 5 and live["made"] == live["ar"] + live["sd"]
    with_slips = schedule["with_slips"]
    assert with_slips["first_difference"] is None and with_slips["agree"] == with_slips["steps"] == live["made"]
    assert with_slips["apart_s"] < 1e-6
    if not schedule["slips"]:
        assert schedule["as_arrived"]["agree"] == live["made"]


@pytest.mark.slow
def test_a_workload_live_and_in_virtual_time(files: tuple[Path, Path], tmp_path: Path) -> None:
    result = command(*files, "--requests", 40, "--json", "--csv", tmp_path / "requests.csv")
    found = json.loads(result.stdout)
    assert result.returncode == (0 if found["agree"] else 1), result.stderr
    assert found["compared"] == found["planned"] == found["load"]["completed"] == 40
    check_steps(found)
    rows = found["requests"]
    assert all(row["output_tokens"] == row["output_tokens_asked"] for row in rows)
    assert all(0 <= row["prompt_tokens"] - row["prompt_tokens_asked"] <= 8 for row in rows)
    if not found["schedule"]["slips"] and not found["load"]["emulator"]["underruns"]:
        assert all(row["ttft_device_s"] == pytest.approx(row["ttft_arrived_s"], abs=1e-6) for row in rows)
    assert all(row["ttft_client_s"] > row["ttft_device_s"] > 0.01 for row in rows)
    sides = ("client", "device", "arrived", "planned")
    assert all(set(found["figures"][metric]) == set(sides) for metric in ("ttft_s", "tpot_s"))
    assert len(found["checks"]) == 8
    assert found["agree"] == (not found["failures"] + found["doubts"])
    assert len(found["failures"] + found["doubts"]) >= sum(not check["within"] for check in found["checks"])
    with (tmp_path / "requests.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["id"] for line in lines] == [row["id"] for row in rows]
    assert [float(line["ttft_planned_s"]) for line in lines] == [row["ttft_planned_s"] for row in rows]


@pytest.mark.parametrize(
    ("scenario", "workload", "said"),
    [
        ('residency = "trace"', WORKLOAD, ["scenario.toml, line 1:", "`residency`", "a recording"]),
        ('faults = ["stall: for=1"]', WORKLOAD, ["scenario.toml, line 1:", "`faults`"]),
        ("speed = 0.0", WORKLOAD, ["scenario.toml, line 1:", "`speed`"]),
        ("spede = 1.0", WORKLOAD, ["scenario.toml, line 1:", "`spede`"]),
        ('hardware = "elmoe3d-16gb"', WORKLOAD, ["elmoe3d-16gb", "elmoe3d-8gb"]),
        ("", WORKLOAD.replace("users = 4", "users = 0"), ["workload.toml, line 5: `arrivals.users` is 0"]),
        ("", f"{WORKLOAD}[agents]\ncalls = 2\nresult = 9\ntool_s = 1\n", ["workload.toml has `agents`"]),
        ("", WORKLOAD.replace("interactive = 1", "hurried = 1"), ["SLO class 'hurried'", "interactive"]),
    ],
)
def test_what_is_wrong_with_the_files_is_told_before_anything_is_started(
    files: tuple[Path, Path], scenario: str, workload: str, said: list[str], refused: Refused
) -> None:
    files[0].write_text(scenario)
    files[1].write_text(workload)
    sentence = refused(*files)
    assert all(word in sentence for word in said), sentence


def test_a_workload_without_requests_is_not_served(files: tuple[Path, Path], refused: Refused) -> None:
    files[1].write_text('arrivals = { kind = "poisson", rate_per_s = 0.001 }\nprompt = 9\noutput = 9\nduration_s = 1\n')
    sentence = refused(*files)
    assert "has no request" in sentence and "--duration" in sentence


def test_files_that_are_not_there_are_named(files: tuple[Path, Path], tmp_path: Path, refused: Refused) -> None:
    for arguments in (
        (tmp_path / "no.toml", files[1]),
        (files[0], tmp_path / "no.toml"),
        (*files, "--csv", tmp_path / "no.toml" / "x.csv"),
        (*files, "--csv", tmp_path),
    ):
        named = "no.toml" if "no.toml" in str(arguments) else f"--csv {tmp_path} cannot be written"
        assert named in refused(*arguments)


@pytest.mark.parametrize("wrong", [("--duration", "-1"), ("--requests", "0"), ("--seed", "x"), ("--endpoint", "talk")])
def test_wrong_options_are_named(files: tuple[Path, Path], wrong: tuple[str, str]) -> None:
    result = command(*files, *wrong)
    assert result.returncode == 2 and wrong[0] in result.stderr and "Traceback" not in result.stderr
