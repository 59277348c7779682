"""Edges in processes of their own: is a server with two of them what one with its edge inside is, and does one that
dies cost nobody else anything?"""

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import grpc
import httpx
import psutil
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from smg_grpc_proto import vllm_engine_pb2, vllm_engine_pb2_grpc
from smg_grpc_proto.generated import common_pb2

from serving.api.pb.foreserve.v1 import admin_pb2, admin_pb2_grpc, metrics_pb2, metrics_pb2_grpc
from serving.process.forks.fork_off import EDGE
from serving.process.server_process import ServerProcess, server
from tests.conftest import MODEL
from tests.serving.cluster.test_ray_lost import end_without
from tests.soak.streams import HANG_S, SeededStreams

CHAT = "/v1/chat/completions"
ASKED = {"model": MODEL, "messages": [{"role": "user", "content": "What is a cache?"}], "max_tokens": 16, "seed": 7}
KEY, ADMIN = "let-me-in", "let-me-change"
HEADERS = {"authorization": f"Bearer {KEY}"}
# Enough for both of two edges to have some, whichever the kernel chooses for each.
CONNECTIONS = 12
# More than an edge has connections to the engine core.
SLOW = 70
RESTART_S = 60.0
PLACES = 64

# No instant is checked here.
pytestmark = pytest.mark.beside


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("edges") / "log"


@pytest.fixture(scope="module")
def edges(log: Path) -> Iterator[ServerProcess]:
    options = ("--devices", "2", "--edges", "2", "--speed", "4", "--max-queue", str(PLACES))
    options += ("--log-requests", "--log-format", "json")
    with server(*options, quiet=True, log=log) as child:
        yield child


def processes_of(child: ServerProcess) -> list[int]:
    """The edges of a server, as process ids."""
    found = []
    for each in psutil.Process(child.process.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if each.status() != psutil.STATUS_ZOMBIE and each.name() == EDGE:
                found.append(each.pid)
    return sorted(found)


def counted(child: ServerProcess, name: str) -> float:
    lines = httpx.get(f"{child.http_url}/metrics", timeout=30).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + "{"))


def states(child: ServerProcess) -> set[str]:
    """What is said of a server's edges."""
    parts: dict[str, str] = httpx.get(f"{child.http_url}/ready", timeout=30).json()["parts"]
    assert {"edge 0", "edge 1"} < parts.keys()
    return {state for name, state in parts.items() if name.startswith("edge")}


def test_each_gives_the_same_text_and_all_of_them_are_counted(edges: ServerProcess) -> None:
    before = counted(edges, "vllm:request_success_total")
    texts = set()
    for _ in range(CONNECTIONS):
        # A connection each.
        answer = httpx.post(edges.http_url + CHAT, json=ASKED, timeout=60)
        assert answer.status_code == 200 and answer.headers["x-foreserve-text"] == "vllm"
        texts.add(answer.json()["choices"][0]["message"]["content"])
    assert len(texts) == 1
    assert counted(edges, "vllm:request_success_total") == before + CONNECTIONS
    assert counted(edges, "foreserve_delivery_delay_seconds_count") > 0


def test_whoever_aborts_a_request_need_not_know_at_which_edge_it_is(edges: ServerProcess) -> None:
    """Each channel has a connection of its own, to either of two edges."""
    target, options = edges.grpc_url.removeprefix("grpc://"), [("grpc.use_local_subchannel_pool", 1)]
    tokens = vllm_engine_pb2.TokenizedInput(original_text="Hi", input_ids=[5, 6, 7])
    params = vllm_engine_pb2.SamplingParams(max_tokens=3000, ignore_eos=True)

    def ask(vllm: vllm_engine_pb2_grpc.VllmEngineStub, id: str) -> str:
        asked = vllm_engine_pb2.GenerateRequest(request_id=id, tokenized=tokens, sampling_params=params)
        return str([answer.complete.finish_reason for answer in vllm.Generate(asked, timeout=60)][-1])

    with contextlib.ExitStack() as stack:
        channels = [stack.enter_context(grpc.insecure_channel(target, options)) for _ in range(CONNECTIONS)]
        asking, *aborting = map(vllm_engine_pb2_grpc.VllmEngineStub, channels)
        pool = stack.enter_context(ThreadPoolExecutor(CONNECTIONS))
        ends = [pool.submit(ask, asking, f"request {index}") for index in range(len(aborting))]
        wait_until(lambda: counted(edges, "vllm:num_requests_running") == len(aborting))
        for index, vllm in enumerate(aborting):
            vllm.Abort(vllm_engine_pb2.AbortRequest(request_ids=[f"request {index}", "nobody's"]))
        assert [end.result(5.0) for end in ends] == ["abort"] * len(aborting)
    wait_until(lambda: counted(edges, "vllm:num_requests_running") == 0)


def test_refusals_come_with_a_status_before_a_stream_begins(edges: ServerProcess) -> None:
    for change, status, field in (
        ({"slo": "unheard of"}, 400, "slo"),
        ({"topic": {"a": [2**70]}}, 400, "topic"),
        ({"ttft_ms": 0.01}, 429, None),
        ({"n": 65}, 400, "n"),
    ):
        for stream in (False, True):
            refused = httpx.post(edges.http_url + CHAT, json={**ASKED, **change, "stream": stream}, timeout=60)
            assert refused.status_code == status, refused.text
            assert refused.json()["error"]["param"] == field
            assert ("retry-after" in refused.headers) == (status == 429)
    for rank in ("77", "300", str(2**31 - 2)):
        refused = httpx.post(edges.http_url + CHAT, json=ASKED, headers={"x-data-parallel-rank": rank}, timeout=60)
        assert refused.status_code == 400 and f"There is no device {rank}" in refused.text
    beyond = {"x-data-parallel-rank": str(2**31 - 1)}
    assert httpx.post(edges.http_url + CHAT, json=ASKED, headers=beyond, timeout=60).status_code == 400
    assert httpx.post(edges.http_url + CHAT, json=ASKED, headers={"x-data-parallel-rank": "1"}).status_code == 200


def test_who_is_refused_by_an_edge_alone_has_a_line_in_the_log(edges: ServerProcess, log: Path) -> None:
    for id, body, status in (("unknown", {**ASKED, "model": "nobody"}, 404), ("wrong", {**ASKED, "n": "many"}, 400)):
        answer = httpx.post(edges.http_url + CHAT, json=body, headers={"x-request-id": id}, timeout=60)
        assert answer.status_code == status, answer.text
        said = {"message": f"A request was refused. The call was answered with {status}.", "request_id": id}
        said |= {"route": CHAT, "status": str(status), "error": str(status)}
        wait_until(partial(has_line, log, said))


def has_line(log: Path, said: dict[str, str]) -> bool:
    """Tell whether a line of a log of JSON says so, among other things."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    return any(said.items() <= line.items() for line in lines)


def test_a_full_queue_is_told_before_a_body_is_read_and_each_of_its_refusals_is_counted(edges: ServerProcess) -> None:
    many = {**ASKED, "max_tokens": 900, "ignore_eos": True, "stream": True, "n": PLACES // 2}
    before, refused, early = counted(edges, "foreserve_rejections_total"), 0, ""
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            answer = stack.enter_context(httpx.stream("POST", edges.http_url + CHAT, json=many, timeout=60))
            assert answer.status_code == 200
        for _ in range(10 * CONNECTIONS):
            # A connection each, to either edge: one of which has just refused somebody.
            refused += httpx.post(edges.http_url + CHAT, json=ASKED, timeout=60).status_code == 429
            if early := answer_without_body(edges):
                break
    assert early.startswith("HTTP/1.1 429") and "retry-after: " in early and f"All {PLACES} places" in early
    wait_until(lambda: counted(edges, "foreserve_rejections_total") == before + refused + 1)
    wait_until(lambda: counted(edges, "vllm:num_requests_running") == counted(edges, "vllm:num_requests_waiting") == 0)


def answer_without_body(edges: ServerProcess) -> str:
    """Return what a chat is answered with whose body has not come, "" if its body is waited for."""
    url = httpx.URL(edges.http_url)
    with socket.create_connection((url.host, url.port), timeout=60) as slow:
        slow.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\n".encode())
        slow.sendall(b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        slow.settimeout(0.2)
        said = b""
        with contextlib.suppress(TimeoutError):
            while more := slow.recv(1 << 16):
                said += more
        return said.decode()


def test_the_admin_and_probes_reach_the_engine_core_through_any(edges: ServerProcess) -> None:
    for _ in range(CONNECTIONS):
        assert httpx.get(f"{edges.http_url}/", timeout=30).headers["location"] == "/ui"
        assert httpx.get(f"{edges.http_url}/ready", timeout=30).json()["parts"]["device 1"] == "up"
        assert httpx.get(f"{edges.http_url}/foreserve/v1/status", timeout=30).status_code == 200
        assert httpx.get(f"{edges.http_url}/foreserve/v1/history?after=1", timeout=30).json()["first"] == 1
    wrong = httpx.post(f"{edges.http_url}/foreserve/v1/devices", json={"hardware": 1}, timeout=30)
    assert wrong.status_code == 400 and "device" in wrong.json()["error"]["message"]
    with grpc.insecure_channel(edges.grpc_url.removeprefix("grpc://")) as channel:
        metrics = metrics_pb2_grpc.MetricsStub(channel).GetMetrics(metrics_pb2.GetMetricsRequest(), timeout=30)  # type: ignore[no-untyped-call]
        assert "foreserve_released_tokens_total" in metrics.text
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(service="device 0"), timeout=30)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as unknown:
            stub.Check(health_pb2.HealthCheckRequest(service="device 9"), timeout=30)
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_body_that_does_not_come_keeps_no_probe_from_anybody(edges: ServerProcess) -> None:
    url = httpx.URL(edges.http_url)
    head = "{} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    with contextlib.ExitStack() as stack:
        for _ in range(SLOW):
            for what in ("GET /metrics", "GET /ready", "POST /foreserve/v1/devices"):
                slow = stack.enter_context(socket.create_connection((url.host, url.port), timeout=60))
                slow.sendall(head.format(what).encode())
                if what == "GET /ready":
                    assert slow.recv(12) == b"HTTP/1.1 200"
        for _ in range(CONNECTIONS):
            assert httpx.get(f"{edges.http_url}/ready", timeout=60).status_code == 200


def test_what_the_core_answers_is_passed_as_it_is(edges: ServerProcess) -> None:
    for path in ("/metrics", "/metrics/"):
        answer = httpx.get(edges.http_url + path, headers={"accept-encoding": "identity"}, timeout=30)
        assert "content-encoding" not in answer.headers and "vllm:num_requests_running" in answer.text
        assert [name for name, _ in answer.headers.raw].count(b"date") == 1
    with grpc.insecure_channel(edges.grpc_url.removeprefix("grpc://")) as channel:
        admin = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
        with pytest.raises(grpc.RpcError) as refused:
            admin.AddDevices(admin_pb2.AddDevicesRequest(), timeout=30)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT and "device" in refused.value.details()
        listed = health_pb2_grpc.HealthStub(channel).List(health_pb2.HealthListRequest(), timeout=30)
        assert listed.statuses["edge 0"].status == health_pb2.HealthCheckResponse.SERVING


def test_vllms_service_tells_of_the_devices_and_of_all_requests_through_any(edges: ServerProcess) -> None:
    endless = {**ASKED, "max_tokens": 3000, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", edges.http_url + CHAT, json=endless, timeout=60):
        wait_until(lambda: counted(edges, "vllm:num_requests_running") == 1)
        for _ in range(CONNECTIONS):
            with grpc.insecure_channel(edges.grpc_url.removeprefix("grpc://")) as channel:
                vllm = vllm_engine_pb2_grpc.VllmEngineStub(channel)
                info = vllm.GetServerInfo(vllm_engine_pb2.GetServerInfoRequest(), timeout=30)
                assert (info.data_parallel_size, info.active_requests) == (2, 1)
    wait_until(lambda: counted(edges, "vllm:num_requests_running") == 0)
    for _ in range(CONNECTIONS):
        with grpc.insecure_channel(edges.grpc_url.removeprefix("grpc://")) as channel:
            vllm = vllm_engine_pb2_grpc.VllmEngineStub(channel)
            loads = vllm.GetLoads(vllm_engine_pb2.GetLoadsRequest(), timeout=30).loads
            assert [load.dp_rank for load in loads] == [0, 1] and loads[1].max_total_num_tokens > 0
            assert vllm.FlushCache(common_pb2.FlushCacheRequest(), timeout=30).success
            with pytest.raises(grpc.RpcError) as without:
                list(vllm.SubscribeKvEvents(common_pb2.SubscribeKvEventsRequest(), timeout=30))
            assert without.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_who_watches_as_often_as_he_can_keeps_nobody_from_an_answer(edges: ServerProcess) -> None:
    with grpc.insecure_channel(edges.grpc_url.removeprefix("grpc://")) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watching = [stub.Watch(health_pb2.HealthCheckRequest(service="ready"), timeout=120) for _ in range(600)]
        codes = []
        for each in watching:
            try:
                next(each)
                codes.append(grpc.StatusCode.OK)
            except grpc.RpcError as error:
                codes.append(error.code())
        assert codes.count(grpc.StatusCode.OK) == 512
        assert codes.count(grpc.StatusCode.RESOURCE_EXHAUSTED) == 88
        assert stub.Check(health_pb2.HealthCheckRequest(service="ready"), timeout=30).status
        for each in watching:
            each.cancel()
        # Their places are free again.
        wait_until(lambda: watches(stub))


def watches(stub: health_pb2_grpc.HealthStub) -> bool:
    """Tell whether one more may watch."""
    one = stub.Watch(health_pb2.HealthCheckRequest(service="ready"), timeout=30)
    try:
        return bool(next(one).status)
    except grpc.RpcError:
        return False
    finally:
        one.cancel()


def test_who_breaks_off_leaves_nothing_in_flight(edges: ServerProcess) -> None:
    endless = {**ASKED, "max_tokens": 900, "ignore_eos": True, "stream": True}
    for _ in range(6):
        with httpx.stream("POST", edges.http_url + CHAT, json=endless, timeout=60) as answer:
            next(answer.iter_lines())
    wait_until(lambda: counted(edges, "vllm:num_requests_running") == counted(edges, "vllm:num_requests_waiting") == 0)
    before = counted(edges, "vllm:generation_tokens_total")
    stopped = {**ASKED, "max_tokens": 400, "ignore_eos": True, "stop": [" is"]}
    answer = httpx.post(edges.http_url + CHAT, json=stopped, timeout=60).json()
    assert answer["choices"][0]["finish_reason"] == "stop"
    wait_until(lambda: counted(edges, "vllm:num_requests_running") == counted(edges, "vllm:num_requests_waiting") == 0)
    # The devices told of all that the client has got, though some of it came straight from them.
    assert counted(edges, "vllm:generation_tokens_total") - before >= answer["usage"]["completion_tokens"] > 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [pytest.param(signal.SIGKILL, marks=pytest.mark.slow), signal.SIGSTOP])
def test_one_that_dies_or_stops_costs_its_own_connections_and_nothing_else(
    edges: ServerProcess, how: signal.Signals
) -> None:
    victim, survivor = processes_of(edges)
    streams = SeededStreams(edges, count=8)
    before = counted(edges, "vllm:generation_tokens_total")
    with streams:
        time.sleep(3)
        os.kill(victim, how)
        # Meanwhile the other one has all new connections.
        wait_until(lambda: victim not in processes_of(edges), HANG_S)
        wait_until(lambda: len(processes_of(edges)) == 2, RESTART_S)
        if how is signal.SIGKILL:
            wait_until(lambda: states(edges) == {"up"}, RESTART_S)
    assert streams.seen.wrong == [] and streams.seen.rounds > 8
    assert survivor in processes_of(edges)
    after = counted(edges, "vllm:generation_tokens_total")
    assert after > before
    wait_until(lambda: counted(edges, "vllm:num_requests_running") == 0)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_without_ray_all_of_them_end(edges: ServerProcess, log: Path) -> None:
    wait_until(lambda: states(edges) == {"up"}, RESTART_S)
    pids = processes_of(edges)
    end_without("raylet", edges, log)
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_wants_keys_and_keeps_their_limits_together() -> None:
    options = ("--edges", "2", "--api-key", KEY, "--admin-key", ADMIN, "--key-requests-per-min", str(CONNECTIONS))
    with server(*options, quiet=True) as child:
        statuses = []
        for _ in range(CONNECTIONS + 4):
            assert httpx.post(child.http_url + CHAT, json=ASKED, timeout=60).status_code == 401
            assert httpx.get(f"{child.http_url}/foreserve/v1/devices", headers=HEADERS, timeout=60).status_code == 403
            answer = httpx.post(child.http_url + CHAT, json={**ASKED, "max_tokens": 1}, headers=HEADERS, timeout=60)
            statuses.append(answer.status_code)
            assert "x-ratelimit-remaining-requests" in answer.headers
        assert statuses.count(429) >= 3 and statuses[: CONNECTIONS // 2].count(200) == CONNECTIONS // 2


def wait_until(done: Callable[[], bool], limit_s: float = 30.0) -> None:
    """Wait for what is to become true; fail if it does not."""
    end_s = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < end_s, "It did not come about in time."
        time.sleep(0.1)
