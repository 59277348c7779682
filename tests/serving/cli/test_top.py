"""Does `foreserve top` show what went on, in any terminal, and say what is wrong in a sentence?"""

import io
import re
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import httpx
import msgspec
import pytest
from rich.console import Console

from serving.cli.main import parse
from serving.cli.top.devices import COLUMNS, bar, clock
from serving.cli.top.history import blocks
from serving.cli.top.view import TopView
from serving.refusals import Reason, Refusal
from serving.telemetry.metrics.snapshot import status_of
from serving.telemetry.status import SloNow, Status
from serving.telemetry.status_client import Unreachable, base_of, fetch
from serving.telemetry.status_delta import StatusDeltas, attained
from serving.telemetry.status_history import point_of
from serving.usage_error import UsageError
from tests.serving.telemetry.metrics.samples import Clock, finish, flight, measured, record, release


def busy_status(steps: int = 3) -> Status:
    """Of two devices, of which one has speculated for a while and one is broken."""
    clock = Clock()
    metrics, _ = measured(devices=2, clock=clock)
    metrics.set_info(model="m", hardware="elmoe3d-8gb", speed="1.0")
    request, others = flight("interactive", 0.5, 0.05, "math"), [flight() for _ in range(3)]
    for each in others:
        each.started_s = 1.0
    waiting = [flight("batch", topic="legal", device=1)]
    for each in (request, *others, *waiting):
        metrics.on_begin(each)
    for step in range(steps):
        sd = {"mode": "sd", "drafts": 2, "drafted": 10, "accepted": 6, "accepted_by": [0, 0, 0, 2, 0, 0]}
        metrics.on_step(record(start_s=1.0 + step * 0.01, waiting=1, **sd))
        request.take([1, 2, 3, 4], 1.01 + step * 0.01)
        release(metrics, request, 4, None if step == 0 else 0.01)
    finish(metrics, request, "stop")
    metrics.on_fault(1, "lpddr", True)
    metrics.on_refusal(Refusal(Reason.TTFT, "", slo="interactive"), None)
    clock.until(1.5 + steps)
    return status_of(metrics)


def printed(status: Status, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    points = [point_of(msgspec.structs.replace(status, emulated_s=at_s)) for at_s in (0.0, 5.0, 10.0)]
    console.print(TopView(status, StatusDeltas().since_last(status), "http://there", points))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_status_says_what_devices_did_and_what_was_promised() -> None:
    status = msgspec.json.decode(msgspec.json.encode(busy_status()), type=Status)
    first, second = status.devices
    assert (first.mode, first.batch, first.tokens, first.drafted, first.accepted) == ("sd", 2, 12, 30, 18)
    assert (first.steps, first.switches, first.waiting) == ({"ar": 0, "sd": 3}, 0, 1)
    assert (second.mode, second.batch, second.faults) == ("", 0, ["lpddr"])
    assert sum(first.hb_bytes.values()) <= first.hb_capacity_bytes
    slo = {each.name: each for each in status.slos}["interactive"]
    assert (slo.met, slo.missed, slo.rejected, attained(slo)) == (1, 0, 1, 0.5)
    assert status.waiting == {"legal": 1}
    assert status.ttft.p50_s == pytest.approx(0.01)
    assert busy_status(0).ttft.p50_s is None


def test_a_beat_is_what_went_on_between_two_looks() -> None:
    before, after, deltas = busy_status(3), busy_status(8), StatusDeltas()
    deltas.since_last(before)
    rates = deltas.since_last(after)[0]
    assert rates.tokens_per_s == pytest.approx((8 - 3) * 4 / 5.0)
    assert (rates.sd_share, rates.acceptance) == (1, pytest.approx(0.6))
    assert deltas.since_last(after)[0].tokens_per_s == 0
    assert deltas.since_last(after)[1].j_per_token is None


def test_rates_of_a_server_that_has_begun_anew_are_since_its_start() -> None:
    long_ago, again, deltas = busy_status(40), busy_status(3), StatusDeltas()
    deltas.since_last(long_ago)
    assert deltas.since_last(again) == StatusDeltas().since_last(again)


def test_joules_a_token_are_those_of_all_devices_also_of_one_that_had_no_token() -> None:
    status = busy_status()
    first, second = status.devices
    first = msgspec.structs.replace(first, tokens=10, step_energy_j=1.0)
    second = msgspec.structs.replace(second, tokens=0, step_energy_j=3.0)
    text = printed(msgspec.structs.replace(status, devices=[first, second]), 120)
    assert "0.400 J/token" in text


def test_nothing_was_asked_of_a_class_that_nobody_named() -> None:
    assert attained(SloNow("batch", None, None, 0, 0, 0, 0)) is None


@pytest.mark.parametrize("width", [80, 100, 160])
def test_all_lines_fit_into_the_terminal_and_all_columns_into_a_wide_one(width: int) -> None:
    text = printed(busy_status(), width)
    assert max(map(len, text.splitlines())) <= width
    head = next(line for line in text.splitlines() if "device" in line)
    assert [column.name in head for column in COLUMNS].count(True) == sum(column.least <= width for column in COLUMNS)
    assert "SD" in text and "lpddr" in text
    assert "interactive" in text and "50.0%" in text


@pytest.mark.parametrize("width", [72, 80, 100])
def test_a_narrow_terminal_has_fewer_columns_and_breaks_lines_between_figures(width: int) -> None:
    status = busy_status()
    faulty = [
        msgspec.structs.replace(device, hardware="stratum-l-256-flat", faults=["stall", "slow", "lpddr", "clock"])
        for device in status.devices
    ]
    host = msgspec.structs.replace(status.host, too_slow="This host is too slow for this load. " * 4)
    about = {**status.about, "model": "qwen3-30b-a3b", "hardware": "stratum-l-256-flat"}
    text = printed(msgspec.structs.replace(status, devices=faulty, host=host, about=about), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width and "…" not in text
    assert all(line.startswith(" ") for line in lines if line)
    for whole in ("J/token   ", " p99 10 ms", "0.0% of tokens not ready", "tokens/s", "stall", "lpddr"):
        assert any(whole in line for line in lines), whole
    assert any(re.search(r"tokens/s   0\.01\d J/token   \d", line) for line in lines)


def test_tiers_have_the_names_of_the_hardware() -> None:
    status = busy_status()
    assert status.devices[0].tiers == ("hb", "lpddr") and "lpddr" in printed(status, 160)
    stacked = [msgspec.structs.replace(device, tiers=("mono3d", "interposer")) for device in status.devices]
    text = printed(msgspec.structs.replace(status, devices=stacked), 160)
    assert "interposer" in text and not re.search(r"HB|LPDDR|\bext\b", text)
    assert max(map(len, text.splitlines())) <= 160


def test_bars_and_clocks() -> None:
    assert bar(0.5) == "████      50%"
    assert {len(bar(share / 100)) for share in range(0, 120)} == {len(bar(0))}
    assert clock(3_725.9) == "1:02:05"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "nonsense", "http://[", "http://127.0.0.1:0"])
def test_where_nothing_answers_it_says_so(url: str) -> None:
    with pytest.raises(Unreachable, match="Nothing answers at"):
        fetch(url)


def test_a_port_that_none_has_is_not_taken_for_the_one_of_its_last_16_bits() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1] + 65536}"
        with pytest.raises(Unreachable, match=r"Nothing answers at .*Port out of range 0-65535"):
            fetch(url)


@pytest.mark.parametrize("status", [502, 503])
def test_a_server_that_has_no_time_is_not_taken_for_another_kind(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    told = {"error": {"message": "All 4096 connections are taken: try again in a moment.", "code": status}}
    monkeypatch.setattr(httpx, "get", lambda *_, **__: httpx.Response(status, json=told))
    with pytest.raises(Unreachable, match=rf"cannot answer now \({status}\): try again"):
        fetch("http://127.0.0.1:8000")


def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    status = msgspec.json.encode(busy_status())
    asked: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(status)))
            self.end_headers()
            self.wfile.write(status)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        Thread(target=server.handle_request, daemon=True).start()
        assert len(fetch(f"http://127.0.0.1:{server.server_port}").devices) == 2
    assert asked == ["/foreserve/v1/status"]


def test_joules_a_token_are_those_of_steps() -> None:
    status = busy_status()
    device = status.devices[0]
    assert device.step_energy_j == pytest.approx(3 * 0.05) and device.energy_j > device.step_energy_j
    assert StatusDeltas().since_last(status)[0].j_per_token == pytest.approx(0.15 / 12)
    assert re.search(r"0\.01[23] J/token", printed(status, 160))


def test_a_class_that_nobody_has_named_is_not_shown_and_none_is_no_class() -> None:
    status = busy_status()
    assert "none" not in {slo.name for slo in status.slos}
    text = printed(status, 160)
    assert "interactive" in text and "standard" not in text


def test_a_host_that_is_too_slow_is_told_with_what_to_do() -> None:
    status = busy_status()
    assert "too slow" not in printed(status, 100)
    late = msgspec.structs.replace(
        status.host, too_slow="This host is too slow for this load: x. Try `serve --speed 1`."
    )
    assert "Try `serve --speed 1`" in printed(msgspec.structs.replace(status, host=late), 100)


def test_history_is_as_high_as_its_highest_value_and_shorter_than_it_is_wide() -> None:
    assert blocks([0.0, 4.0, None, 8.0], 6, 8.0) == "  ▁▅ █"
    assert blocks([8.0] * 50 + [0.0] * 50, 4, 8.0) == "██▁▁"
    assert blocks([0.0, 0.0], 2, 0.0) == "▁▁"
    text = printed(busy_status(), 100)
    assert "last 10 s" in text and "TTFT p99" in text


def test_an_address_needs_no_scheme() -> None:
    assert base_of("127.0.0.1:8000") == base_of("http://127.0.0.1:8000/v1/") == "http://127.0.0.1:8000"
    assert base_of("https://h:1/a/v1") == "https://h:1/a"


@pytest.mark.parametrize("words", [["127.0.0.1:9"], ["--url", "127.0.0.1:9"], ["http://127.0.0.1:9/v1"]])
def test_an_address_may_be_named_either_way(words: list[str]) -> None:
    args = parse(["top", "--once", *words])
    with pytest.raises(Unreachable, match=r"Nothing answers at http://127.0.0.1:9 "):
        args.run(args)
    twice = parse(["top", "here:1", "--url", "there:2"])
    with pytest.raises(UsageError, match="Name one server"):
        twice.run(twice)
