"""Whole runs against stand-ins, in this process. Times are only roughly checked: this machine may be busy."""

import asyncio
import io
from collections.abc import Callable
from time import monotonic, sleep

import grpc
import numpy as np
import pytest
from rich.console import Console

from serving.api.pb.foreserve.v1 import openai_pb2_grpc
from serving.load import emulator, http
from serving.load.client import RequestTimes
from serving.load.drive import Drive
from serving.load.latencies import seen_s, ttft_s
from serving.load.options import LoadError, LoadOptions, OptionError, Slos
from serving.load.progress import LoadProgress, Meter
from serving.load.report import Report
from serving.load.request import LoadRequest
from serving.load.run import LoadInterrupted, run_load
from serving.process.progress_line import ProgressLine
from tests.serving.load.grpc_stand_in import GrpcStandIn
from tests.serving.load.openai_stand_in import StandIn
from tests.serving.load.test_emulator import metrics, with_gone

FAST = {"rate_per_s": float("inf"), "num_requests": 3, "output_len": 4, "input_len": 5}


def load(server: StandIn | GrpcStandIn, on_progress: Callable[[LoadProgress], None] | None = None, **options) -> Report:
    async def run() -> Report:
        url = await server.start()
        try:
            return await run_load(LoadOptions(**({"url": url} | FAST | options)), on_progress)
        finally:
            await server.stop()

    return asyncio.run(run())


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
@pytest.mark.parametrize("server", [StandIn, GrpcStandIn])
def test_latencies_are_those_of_the_server(server, endpoint):
    step_s = 0.03
    summary = load(server(step_s), endpoint=endpoint, output_len=6).summary
    assert (summary.requests, summary.completed) == (3, 3)
    assert (summary.prompt_tokens, summary.output_tokens, summary.counted_by_server) == (21, 18, True)
    assert summary.ttft_s.mean > 0.5 * step_s
    assert summary.itl_s.mean > 0.5 * step_s
    assert summary.tpot_s.mean == pytest.approx(summary.itl_s.mean, rel=0.1)
    assert summary.e2e_s.mean >= summary.ttft_s.mean + 4 * step_s
    assert (summary.ttft_s.count, summary.itl_s.count) == (3, 15)


def test_tokens_that_come_in_pairs_are_counted_by_usage():
    report = load(StandIn(0.02), model="pairs", output_len=9)
    summary = report.summary
    assert (summary.output_tokens, summary.outputs, summary.itl_s.count) == (27, 15, 24)
    assert summary.itl_s.mean > 0.01
    assert report.to_json()["tokens_per_chunk"] == 27 / 15
    assert "tokens came in a chunk" in shown(report)


def test_without_usage_chunks_are_counted_and_the_report_says_so():
    report = load(StandIn(), model="uncounted")
    assert report.to_json()["tokens_counted_by"] == "chunks"
    assert report.summary.output_tokens == 12
    assert "sent no usage" in shown(report)


@pytest.mark.parametrize(
    ("model", "status", "words"),
    [
        ("bad", "400", "`temperature` must be at least 0."),
        ("full", "429", "The queue is full."),
        ("broken", "500", "not even JSON"),
        ("away", "503", "No server is there."),
        ("drops", "stream", "closed the connection"),
        ("cut", "stream", "without a finish_reason"),
        ("garbage", "stream", "{nonsense"),
        ("endless", "stream", "a line of more than 16 MiB: b'data: xxx"),
        ("fails", "stream", "Out of luck."),
    ],
)
def test_failures_are_counted_by_what_the_server_said(model, status, words):
    report = load(StandIn(), model=model)
    assert (report.summary.completed, report.summary.failed) == (0, 3)
    assert report.failure == "No request completed."
    (error,) = report.summary.errors
    assert (error.status, error.count) == (status, 3)
    assert words in error.message
    assert words in shown(report)


def test_a_grpc_run_without_metrics_says_so():
    assert "--metrics-url" in shown(load(GrpcStandIn()))


def test_a_grpc_run_finds_the_metrics_by_itself():
    report = load(GrpcStandIn(metrics=[metrics(), metrics(100, 2.0, 0.5, 0, 24)]))
    assert report.clock == "emulated" and report.fidelity.released_tokens == 48
    assert "25.0% of the modelled TTFT of 20 ms" in shown(report) and "--metrics-url" not in shown(report)


@pytest.mark.parametrize("server", [StandIn, GrpcStandIn])
def test_a_run_counts_what_a_device_did_whose_series_end_before_it(server, monkeypatch):
    monkeypatch.setattr(emulator, "READ_EVERY_S", 0.02)
    texts = [with_gone(10, 40), with_gone(20, 100)]

    def end(progress: LoadProgress) -> None:
        texts[:] = [with_gone(30, None)]

    fidelity = load(server(0.15, texts), end).fidelity
    assert fidelity.released_tokens == 2 * (30 - 10) + (100 - 40)


def test_a_grpc_failure_has_its_code():
    (error,) = load(GrpcStandIn(), model="missing").summary.errors
    assert (error.status, error.message, error.count) == ("NOT_FOUND", "There is no model missing.", 3)


def test_a_grpc_answer_that_is_cut_is_not_of_a_server_that_is_not_there():
    report = load(GrpcStandIn(), model="drops")
    assert (report.failure, report.unreachable) == ("No request completed.", False)
    assert "3 failed: stream: Socket closed" in shown(report)


def test_a_grpc_server_that_is_there_again_is_asked_again_at_once():
    """As over HTTP. By itself gRPC would look for it 2.6 s after it went (give or take a fifth), and then after 5.2."""

    class Restarting(GrpcStandIn):
        async def start(self) -> str:
            url = await super().start()
            self.restart = asyncio.create_task(self._restart(int(url.rpartition(":")[2])))
            return url

        async def _restart(self, port: int) -> None:
            while not self.seen:
                await asyncio.sleep(0.02)
            await super().stop()
            await asyncio.sleep(3.5)
            self.server = grpc.aio.server()
            openai_pb2_grpc.add_OpenAIServicer_to_server(self, self.server)
            self.server.add_insecure_port(f"127.0.0.1:{port}")
            await self.server.start()
            self.back_s = monotonic()

    server = Restarting()
    arrivals = {"rate_per_s": 10.0, "arrivals": "constant", "num_requests": 50}
    report = load(server, model="good", **arrivals)
    assert report.summary.failed > 20
    assert max(times.scheduled_s for times in report.all_times if times.error) < server.back_s + 0.8


def test_a_failure_without_a_message_is_told_of_too():
    report = load(GrpcStandIn(), model="silent")
    assert report.summary.failed == 3 and "3 failed: RESOURCE_EXHAUSTED: (no message)" in shown(report)


def test_a_grpc_failure_shows_no_escapes():
    assert r"3 failed: INTERNAL: \x1b[2J Out of luck." in shown(load(GrpcStandIn(), model="clears"))


def test_a_request_that_never_ends_times_out():
    server = StandIn(5.0)
    (error,) = load(server, timeout_s=0.2, model="good").summary.errors
    assert (error.status, error.message) == ("timeout", "no end after 0.2 s")


def test_connections_are_used_again():
    server = StandIn()
    load(server, max_concurrency=1, num_requests=5)
    # Two look at once, for /v1/models and /metrics; requests one after the other are sent over these.
    assert server.connections <= 3


def test_a_connection_that_the_server_closed_meanwhile_is_not_held_against_it():
    class Closing(StandIn):
        async def _answer(self, *args) -> bool:
            await super()._answer(*args)
            return False

    summary = load(Closing(), rate_per_s=20.0, arrivals="constant").summary
    assert (summary.completed, summary.failed) == (3, 0)


def test_a_request_that_the_server_had_is_not_sent_again(monkeypatch):
    class Dying(StandIn):
        async def _stream(self, *args) -> bool:
            if len(self.seen) < 2:
                return await super()._stream(*args)
            await asyncio.sleep(0.3)
            return False

    monkeypatch.setattr(http, "IDLE_CLOSE_S", 0.1)
    server = Dying()
    summary = load(server, max_concurrency=1, num_requests=2).summary
    assert (summary.completed, summary.failed, len(server.seen)) == (1, 1, 2)
    assert summary.errors[0].status == "connection"


def test_an_open_loop_does_not_wait_for_the_server():
    summary = load(StandIn(0.1), rate_per_s=100.0, arrivals="constant", num_requests=30).summary
    assert summary.completed == 30
    assert summary.duration_s < 30 * 0.4 / 2  # One after the other would take 12 s.


def test_concurrency_is_bounded_on_wish_and_waiting_counts():
    summary = load(StandIn(0.02), max_concurrency=1).summary
    assert summary.completed == 3
    assert summary.e2e_s.p99 > 1.8 * summary.e2e_s.count / 3 * 0.08


def test_the_wait_for_a_place_is_the_clients_own():
    class Server:
        async def stream(self, request: LoadRequest, model: str, times: RequestTimes) -> None:
            await asyncio.sleep(0.05)
            times.see(monotonic(), True, None)

    drive = Drive(Server(), "m", speed=1.0, timeout_s=9.0)
    asyncio.run(drive.run([LoadRequest(0.0, "x", 1) for _ in range(3)], 1))
    assert [times.held_s for times in drive.all_times] == pytest.approx([0.0, 0.05, 0.1], abs=0.03)
    assert seen_s("ttft", drive.all_times, 2.0) == pytest.approx([0.1] * 3, abs=0.06)
    assert ttft_s(drive.all_times[2]) > 0.1


def test_a_late_client_does_not_slow_the_load():
    class Busy:
        async def stream(self, request: LoadRequest, model: str, times: RequestTimes) -> None:
            sleep(0.03)

    drive = Drive(Busy(), "m", speed=2.0, timeout_s=9.0)
    asyncio.run(drive.run([LoadRequest(i * 0.02, "x", 1) for i in range(10)], None))
    scheduled = [times.scheduled_s - drive.all_times[0].scheduled_s for times in drive.all_times]
    assert scheduled == pytest.approx([i * 0.01 for i in range(10)])
    assert drive.all_times[-1].lag_s > 0.1


def test_requests_that_are_due_already_let_those_before_them_go_on():
    made, made_by_then = [], []

    class Server:
        async def stream(self, request: LoadRequest, model: str, times: RequestTimes) -> None:
            made_by_then.append(len(made))

    def slowly():
        for i in range(5):
            sleep(0.02)
            made.append(i)
            yield LoadRequest(0.0, "x", 1)

    asyncio.run(Drive(Server(), "m", 1.0, timeout_s=9.0).run(slowly(), None))
    assert len(made_by_then) == 5 and made_by_then[0] == 2


def test_the_request_is_openais():
    server = StandIn()
    load(server, model="good", api_key="k", extra_body={"top_k": 3}, num_requests=1, temperature=0.0)
    (asked,) = server.seen
    prompt = asked.pop("prompt")
    assert len(prompt.split()) == 5
    assert asked == {
        "model": "good",
        "max_tokens": 4,
        "min_tokens": 4,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "top_k": 3,
    }
    assert all(b"authorization: bearer k" in head.lower() for head in server.headers)


def test_the_first_listed_model_is_asked_if_none_is_named():
    server = StandIn()
    assert load(server).model == "good"
    assert load(GrpcStandIn()).model == "good"


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_an_address_where_nobody_is(scheme):
    with pytest.raises(LoadError, match=f"{scheme}://127.0.0.1:9"):
        asyncio.run(run_load(LoadOptions(url=f"{scheme}://127.0.0.1:9", **FAST)))


def test_a_grpc_field_that_does_not_exist_is_a_wrong_option():
    with pytest.raises(OptionError, match=r"--extra-body.*nonsense"):
        load(GrpcStandIn(), extra_body={"nonsense": 1})


def test_metrics_that_are_no_emulators():
    with pytest.raises(OptionError, match="--metrics-url"):
        load(StandIn(), metrics_url="http://127.0.0.1:9/metrics")
    assert load(StandIn(metrics=["vllm:nothing 0\n"])).fidelity is None


def test_an_emulator_is_asked_about_its_pace_and_its_clock_is_used():
    slos = Slos(ttft_s=9.0, tpot_s=9.0, e2e_s=9.0)
    readings = [metrics(speed=0.1), metrics(100, 2.0, 0.2, 1, 24, 48.0, speed=0.1)]
    report = load(StandIn(0.02, readings), rate_per_s=1.0, duration_s=0.1, arrivals="constant", slos=slos)
    assert report.fidelity.lateness_share == pytest.approx(0.01)
    (request,) = report.all_times
    gaps_s = np.diff(request.outputs_s)
    assert report.summary.itl_s.mean == pytest.approx(0.1 * gaps_s.mean())  # A tenth of what the client saw.
    written = report.to_json()
    assert written["clock"] == "emulated"
    assert written["goodput"]["attainment"] == 1
    assert written["emulator"]["joules_per_token"] == pytest.approx(2.0)
    text = shown(report)
    assert "emulated seconds (speed 0.1)" in text
    assert "underruns: 1" in text and "2 J/token, of those released" in text
    assert "100.0% of requests within TTFT 9000 ms" in text


def test_a_late_host_gets_figures_but_no_verdict():
    report = load(StandIn(metrics=[metrics(), metrics(100, 2.0, 0.5, 0, 24)]), slos=Slos(ttft_s=9.0))
    good = report.to_json()["goodput"]
    assert (good["per_s"], good["attainment"], good["slos"]) == (None, None, {"ttft_s": 9.0})
    assert "host is too slow" in good["refused"]
    assert "25.0% of the modelled TTFT of 20 ms" in shown(report)
    assert "Goodput" not in shown(report)


def test_of_an_emulator_that_restarted_no_counts_are_told():
    report = load(StandIn(metrics=[metrics(100, 2.0, 0.1, 5, 100, 9.0), metrics(10, 2.0, 0.1, 5, 24, 9.0)]))
    assert "the emulator restarted during the run" in shown(report) and "underruns" not in shown(report)
    written = report.to_json()["emulator"]
    names = ("underruns", "underrun_share", "released_tokens", "recorded_share", "cached_share", "energy_j")
    assert [written[name] for name in names] == [None] * 6


def test_the_reports_keys_stay():
    report = load(StandIn(metrics=[metrics(), metrics(100, 2.0, 0.0, 0, 24)]), slos=Slos(ttft_s=9.0)).to_json()
    assert set(report) == {
        *(
            "url",
            "model",
            "clock",
            "interrupted",
            "broken",
            "requests",
            "completed",
            "failed",
            "cancelled",
            "duration_s",
        ),
        *("errors", "prompt_tokens", "output_tokens", "tokens_counted_by", "tokens_per_chunk"),
        *("request_throughput_per_s", "output_tokens_per_s", "ttft_s", "tpot_s", "itl_s", "e2e_s", "send_lag_s"),
        *("goodput", "slo_classes", "emulator", "tool_calls"),
    }
    assert all(set(report[name]) == {"mean", "p50", "p90", "p99", "count"} for name in report if name[:-2] in LATENCIES)
    assert set(report["goodput"]) == {"per_s", "attainment", "slos", "refused"}
    assert set(report["emulator"]) == {
        *("info", "speed", "lateness_mean_s", "lateness_share", "step_mean_s", "pacing_error_mean_s", "underruns"),
        *(
            "ttft_mean_s",
            "tpot_mean_s",
            "lateness_p99_s",
            "pacing_share",
            "underrun_share",
            "released_tokens",
            "recorded_tokens",
            "recorded_share",
            "cached_share",
            "energy_j",
            "joules_per_token",
            "refused",
            *(f"{name}_p{p}_refused" for name in ("ttft", "tpot", "itl", "e2e") for p in (50, 90, 99)),
        ),
    }


LATENCIES = {"ttft", "tpot", "itl", "e2e", "send_lag"}


def test_stopping_cancels_what_is_in_flight_and_reports_the_rest():
    async def run() -> tuple[Report, StandIn]:
        server, stop = StandIn(0.02), asyncio.Event()
        url = await server.start()
        stopping = asyncio.create_task(stop_after(server, stop))
        arrivals = {"rate_per_s": 10.0, "arrivals": "constant", "num_requests": 1000}
        report = await run_load(LoadOptions(url, **arrivals, input_len=5, output_len=20), None, stop)
        await stopping
        async with asyncio.timeout(60):
            while not server.hung_up:
                await asyncio.sleep(0.02)
        await server.stop()
        return report, server

    async def stop_after(server: StandIn, stop: asyncio.Event) -> None:
        while len(server.seen) < 3:
            await asyncio.sleep(0.02)
        stop.set()

    report, server = asyncio.run(run())
    assert report.interrupted and report.summary.cancelled > 0
    assert all(times.cancelled_s > times.scheduled_s for times in report.all_times if times.cancelled)
    assert report.summary.requests < 100
    assert server.hung_up > 0  # A server sees that nobody reads on.


def test_stopping_before_anything_was_sent():
    async def run() -> None:
        stop = asyncio.Event()
        stop.set()
        await run_load(LoadOptions("http://127.0.0.1:9"), None, stop)

    with pytest.raises(LoadInterrupted):
        asyncio.run(run())


def test_progress_is_told_while_it_runs():
    said: list[LoadProgress] = []
    load(StandIn(0.05), said.append, output_len=16)
    # On a busy machine the first look may be before all are sent.
    assert any((each.in_flight, each.done, each.failed) == (3, 0, 0) for each in said)
    # On a busy machine no token may have come by the first look.
    assert any(each.tokens_per_s > 0 for each in said)


def test_the_rate_is_that_of_the_last_five_seconds():
    drive, now = Drive(None, "m", 1.0, 1.0), [0.0]
    meter = Meter(drive, lambda: now[0])
    rates = []
    for second in range(1, 21):
        now[0] = float(second)
        drive.ended_tokens += 100 if second <= 10 else 0
        rates.append(meter.read().tokens_per_s)
    # A burst that has ended fades within five seconds, and no reading between two bursts says 0.
    assert rates == [100.0] * 10 + [80.0, 60.0, 40.0, 20.0, 0.0] + [0.0] * 5
    # Whoever reads rarely gets the mean since the reading before.
    now[0], drive.ended_tokens = 30.0, 2000
    assert meter.read().tokens_per_s == 100.0


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_one_live_line_on_a_terminal_and_rare_lines_elsewhere(terminal):
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    with ProgressLine(stream := Stream()) as line:
        for second in range(12):
            line(LoadProgress(float(second), 1, 2, 3, 4.0))
    assert stream.getvalue().count("\n") == (0 if terminal else 2)
    assert stream.getvalue().count("1 in flight, 2 done, 3 failed") == (12 if terminal else 2)


def shown(report: Report) -> str:
    report.show(Console(file=(out := io.StringIO()), width=200))
    return out.getvalue()
