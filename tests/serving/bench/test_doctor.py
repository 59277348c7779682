"""Does `foreserve doctor` say what this machine lacks and what it can do, as it was measured?"""

import ctypes
import io
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from serving.api.http_protocol import SHARE_OF_FILES
from serving.bench import doctor, host_checks
from serving.bench.doctor import Diagnosis, estimate, show
from serving.bench.host_checks import FILES_PER_STREAM, HostCheck
from serving.cli.main import make_parser
from serving.process.process_priority import may_be_realtime
from tests.examples import examples

PR_GET_TIMERSLACK = 30  # linux/prctl.h


def test_it_says_all_that_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    args = make_parser().parse_args(["doctor", "--json"])
    code = args.run(args)
    found = json.loads(capsys.readouterr().out)
    assert code == (0 if all(check["ok"] for check in found["checks"]) else 1)
    assert {check["what"] for check in found["checks"]} >= {"cores", "memory available", "open files", "vLLM and torch"}
    assert found["pace"] > 0 and 0 <= found["late_p50_s"] <= found["late_p99_s"]
    assert [each["step_ms"] for each in found["streams"]] == sorted(each["step_ms"] for each in found["streams"])


@given(st.floats(1, 1000), st.floats(0.1, 10), st.integers(1, 64))
@examples(100)
def test_more_streams_fit_into_longer_steps_and_more_cores(step_ms: float, pace: float, cores: int) -> None:
    here, slower, more = (
        estimate(step_ms, pace, cores),
        estimate(2 * step_ms, pace, cores),
        estimate(step_ms, pace, 2 * cores),
    )
    assert here.made <= here.recorded
    assert slower.recorded >= 2 * here.recorded and more.recorded >= 2 * here.recorded
    # One vLLM makes tokens on one core, however many there are.
    assert more.made >= here.made and slower.made >= here.made


def test_on_the_machine_that_was_measured_it_says_what_was_measured() -> None:
    """64 streams by vLLM and 256 of recorded text kept the pace of 20 ms there, and 1,000 nearly that of 25 ms, as
    tokens of many streams at once cost less (serving/bench/README.md)."""
    found = estimate(20, 1.0, 2)
    assert 64 <= found.made < 2 * 64 and 256 <= found.recorded < 1000 * 20 / 25


def test_it_waits_as_a_device_does_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = set()

    def sleep(seconds: float) -> None:
        slack_ns = ctypes.CDLL(None).prctl(PR_GET_TIMERSLACK)
        waited.add((os.sched_getscheduler(0), slack_ns in (0, 1)))

    before = os.sched_getscheduler(0)
    monkeypatch.setattr(doctor.time, "sleep", sleep)
    doctor._late_s()
    assert waited == {(os.SCHED_FIFO if may_be_realtime() else before, True)}
    assert os.sched_getscheduler(0) == before


@pytest.mark.parametrize("ok", [True, False])
def test_what_lacks_is_told_with_what_helps(ok: bool) -> None:
    console = Console(width=100, file=io.StringIO())
    show(Diagnosis([HostCheck("cores", "1", ok, "Give it two.")], 1.0, 1e-4, 1e-3, [estimate(20, 1.0, 2)]), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert ("cores: Give it two." in text) != ok and "steps of less than 20 ms" in text


def test_a_busy_machine_lacks_cores_and_not_others_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_checks.os, "getloadavg", lambda: (99.0, 0.0, 0.0))
    check = host_checks._busy()
    assert not check.ok and (check.what, check.found) == ("cores to itself", "99.0 other processes")


@pytest.mark.parametrize("own", ["/", "/service/a", "/seen/by/the/host"])
def test_a_containers_limits_are_this_machines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str) -> None:
    groups, named = tmp_path / "groups", tmp_path / "cgroup"
    limited = groups / ("service" if own == "/service/a" else "")
    (limited / "a").mkdir(parents=True)
    named.write_text(f"4:memory:/elsewhere\n0::{own}\n")
    monkeypatch.setattr(host_checks, "CGROUPS", groups)
    monkeypatch.setattr(host_checks, "OWN_CGROUP", named)
    monkeypatch.setattr(host_checks.os, "sched_getaffinity", lambda process: range(64))
    for quota, memory, found in (("max", "max", 64), ("250000", "1000000000", 2), ("50000", "4000000000000000", 1)):
        (limited / "cpu.max").write_text(f"{quota} 100000\n")
        (limited / "memory.max").write_text(f"{memory}\n")
        assert host_checks.cores() == found and host_checks._cores().ok is (found > 1)
        assert (host_checks._memory().found == "1.0 GB") is (found == 2)
    (limited / "memory.max").write_text("1000000000\n")
    (limited / "memory.current").write_text("700000000\n")
    (limited / "memory.stat").write_text("anon 600000000\nfile 100000000\ninactive_file 100000000\n")
    assert host_checks._memory().found == "0.4 GB"


def test_streams_have_as_many_files_as_the_server_gives_them() -> None:
    assert FILES_PER_STREAM == SHARE_OF_FILES


def test_few_files_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_checks.resource, "getrlimit", lambda which: (256, 256))
    (check,) = host_checks._files()
    assert not check.ok and check.found == "256, for 128 streams" and "ulimit -n 512" in check.advice
