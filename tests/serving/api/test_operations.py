"""Does what vLLM's servers offer to operators work, or say why not?"""

import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import httpx
import pytest
from smg_grpc_proto import vllm_engine_pb2, vllm_engine_pb2_grpc

from serving.edge.refusals import ENDING
from serving.process.server_process import ServerProcess, server
from tests.patience import until

pytestmark = [pytest.mark.timeout(300), pytest.mark.beside, pytest.mark.slow]

CHAT = "/v1/chat/completions"
# Tokens of ten seconds: what is to happen meanwhile does, on a busy machine too.
MANY = 1500
PLACES = 64


@pytest.fixture(scope="module", params=["1", "2"], ids=["one edge", "two edges"])
def operated(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    options = ("--devices", "2", "--token-model", "foreserve-tiny", "--edges", request.param)
    tracking = "--vllm-option=--enable-server-load-tracking"
    with server(
        *options, tracking, "--max-queue", str(PLACES), quiet=True, environment={"VLLM_SERVER_DEV_MODE": "1"}
    ) as child:
        yield child


def call(child: ServerProcess, method: str, path: str, **rest: Any) -> httpx.Response:
    return httpx.request(method, child.http_url + path, timeout=60, **rest)


def load(child: ServerProcess) -> int:
    return int(call(child, "GET", "/load").json()["server_load"])


class Asking:
    """A request of so many tokens, on its way in a thread."""

    def __init__(self, child: ServerProcess, tokens: int) -> None:
        self.finish, self.tokens = "", 0
        self._child, self._most = child, tokens
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        said = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": self._most, "ignore_eos": True}
        answer = call(self._child, "POST", CHAT, json=said).json()
        self.finish, self.tokens = answer["choices"][0]["finish_reason"], answer["usage"]["completion_tokens"]

    def ended(self, patience_s: float = 60.0) -> bool:
        self._thread.join(patience_s)
        return not self._thread.is_alive()


def stall(child: ServerProcess, seconds: float) -> list[int]:
    faults = [{"fault": f"stall: for={seconds}, device={device}"} for device in range(2)]
    return [call(child, "POST", "/foreserve/v1/faults", json=fault).json()["id"] for fault in faults]


def metric(child: ServerProcess, name: str) -> float:
    text = call(child, "GET", "/metrics").text
    return sum(map(float, re.findall(rf"^{name}{{.*}} (\S+)$", text, re.MULTILINE)))


def running(child: ServerProcess) -> float:
    return metric(child, "vllm:num_requests_running")


def rests(child: ServerProcess) -> bool:
    """Whether no token is made in a second."""
    before = metric(child, "vllm:generation_tokens_total")
    time.sleep(1.0)
    return metric(child, "vllm:generation_tokens_total") == before


def test_the_load_is_what_is_in_flight_whoever_has_left(operated: ServerProcess) -> None:
    assert load(operated) == 0
    several = [Asking(operated, 1200) for _ in range(3)]
    until(lambda: load(operated) == 3)
    endless = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 900, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", operated.http_url + CHAT, json=endless, timeout=60) as answer:
        next(answer.iter_lines())
        assert load(operated) >= 1
    assert all(each.ended() for each in several)
    until(lambda: load(operated) == 0)
    assert call(operated, "POST", CHAT, json={"messages": 1}).status_code == 400 and load(operated) == 0


@pytest.mark.parametrize("mode", ["abort", "wait", "keep"])
def test_who_comes_during_a_pause_waits_and_who_is_there_is_done_with_as_asked(
    operated: ServerProcess, mode: str
) -> None:
    before = Asking(operated, MANY)
    until(lambda: running(operated) == 1)
    assert call(operated, "GET", "/is_paused").json() == {"is_paused": False}
    assert call(operated, "POST", "/pause", params={"mode": mode}).json() == {"status": "paused"}
    assert call(operated, "GET", "/is_paused").json() == {"is_paused": True}
    # Whoever is aborted, or was waited for, has had an answer by now; who is kept, none yet.
    until(lambda: rests(operated))
    assert before.ended(0.0 if mode == "keep" else 60.0) == (mode != "keep")
    coming = Asking(operated, 8)
    assert not coming.ended(1.0)
    assert call(operated, "POST", "/resume").json() == {"status": "resumed"}
    assert coming.ended() and before.ended() and (coming.finish, coming.tokens) == ("length", 8)
    assert (before.finish, before.tokens == MANY) == (("abort", False) if mode == "abort" else ("length", True))
    assert call(operated, "GET", "/is_paused").json() == {"is_paused": False}


def test_who_leaves_during_a_pause_is_never_served_and_gives_his_places_back(operated: ServerProcess) -> None:
    said = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 400, "ignore_eos": True, "n": PLACES // 2}
    before = metric(operated, "vllm:generation_tokens_total")
    assert call(operated, "POST", "/pause", params={"mode": "keep"}).json() == {"status": "paused"}

    def leaves() -> bool:
        """Ask, and go after a second; tell whether there were places for all sequences."""
        try:
            refused = httpx.post(operated.http_url + CHAT, json=said, timeout=httpx.Timeout(60, read=1))
        except httpx.ReadTimeout:
            return True
        assert refused.status_code == 429
        return False

    for _ in range(4):
        until(leaves)
    assert call(operated, "POST", "/resume").json() == {"status": "resumed"}
    assert rests(operated) and metric(operated, "vllm:generation_tokens_total") == before
    assert running(operated) == metric(operated, "vllm:num_requests_waiting") == 0


@pytest.mark.parametrize("n", [1, 3])
def test_who_is_aborted_during_a_pause_is_told_at_once_and_never_served(operated: ServerProcess, n: int) -> None:
    before = metric(operated, "vllm:generation_tokens_total")
    assert call(operated, "POST", "/pause", params={"mode": "keep"}).json() == {"status": "paused"}
    tokens = vllm_engine_pb2.TokenizedInput(original_text="Hi", input_ids=[5, 6, 7])
    params = vllm_engine_pb2.SamplingParams(max_tokens=400, ignore_eos=True, n=n)
    asked = vllm_engine_pb2.GenerateRequest(request_id="waits", tokenized=tokens, sampling_params=params)
    with grpc.insecure_channel(operated.grpc_url.removeprefix("grpc://")) as channel, ThreadPoolExecutor() as pool:
        vllm = vllm_engine_pb2_grpc.VllmEngineStub(channel)
        answer = pool.submit(lambda: list(vllm.Generate(asked, timeout=30)))
        with pytest.raises(TimeoutError):
            answer.result(1.0)
        vllm.Abort(vllm_engine_pb2.AbortRequest(request_ids=["waits"]))
        assert {each.complete.finish_reason for each in answer.result()} == {"abort"}
    assert call(operated, "POST", "/resume").json() == {"status": "resumed"}
    assert rests(operated) and metric(operated, "vllm:generation_tokens_total") == before
    assert running(operated) == metric(operated, "vllm:num_requests_waiting") == 0


def test_a_pause_outlasts_a_fault_that_stalls_and_a_fault_outlasts_a_pause(operated: ServerProcess) -> None:
    before = Asking(operated, MANY)
    until(lambda: running(operated) == 1)
    call(operated, "POST", "/pause", params={"mode": "keep"})
    until(lambda: rests(operated))
    stall(operated, 0.2)
    assert rests(operated) and not before.ended(0.0)
    endless = stall(operated, 1000.0)
    call(operated, "POST", "/resume")
    assert rests(operated) and not before.ended(0.0)
    for fault in endless:
        call(operated, "DELETE", f"/foreserve/v1/faults/{fault}")
    assert before.ended() and (before.finish, before.tokens) == ("length", MANY)


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "/sleep", None, "no memory to give back"),
        ("POST", "/release_kv_cache_memory", None, "no memory to give back"),
        ("GET", "/weight_info", None, "no weights of its own"),
        ("POST", "/weight_checker", {"action": "checksum"}, "no weights of its own"),
        ("POST", "/update_weights", {"update_info": {}}, "no worker of vLLM's"),
        ("POST", "/collective_rpc", {"method": "x"}, "no worker of vLLM's"),
    ],
)
def test_what_an_emulated_device_has_not_is_refused_in_a_sentence(
    operated: ServerProcess, method: str, path: str, body: dict[str, Any] | None, said: str
) -> None:
    answer = call(operated, method, path, json=body)
    assert answer.status_code == 501 and said in answer.json()["error"]["message"]


def test_a_device_never_sleeps_and_says_so(operated: ServerProcess) -> None:
    assert call(operated, "GET", "/is_sleeping").json() == {"is_sleeping": False}
    assert call(operated, "POST", "/wake_up").json() == {"status": "awake", "tags": None}
    assert call(operated, "POST", "/scale_elastic_ep", json={"new_data_parallel_size": 2}).status_code == 404


def test_the_openapi_of_our_routes_tells_how_they_refuse(operated: ServerProcess) -> None:
    paths = call(operated, "GET", "/openapi.json").json()["paths"]
    known = {(path, method): set(one["responses"]) for path, those in paths.items() for method, one in those.items()}
    refusals = {
        ("POST", "/foreserve/v1/devices", '{"device": 1}'): "400",
        ("POST", "/foreserve/v1/devices", '{"device": "nonsense"}'): "400",
        ("DELETE", "/foreserve/v1/devices/99", ""): "404",
        ("DELETE", "/foreserve/v1/devices/x", ""): "400",
        ("POST", "/foreserve/v1/faults", '{"fault": "nonsense"}'): "400",
        ("POST", "/foreserve/v1/faults", '{"fault": "stall: device=99, for=1"}'): "404",
        ("DELETE", "/foreserve/v1/faults/99", ""): "404",
        ("DELETE", "/foreserve/v1/faults/x", ""): "400",
        ("GET", "/foreserve/v1/history?after=x", ""): "400",
        ("GET", "/foreserve/v1/history?after=-1", ""): "400",
    }
    for (method, path, body), status in refusals.items():
        answer = call(operated, method, path, content=body)
        assert str(answer.status_code) == status and answer.json()["error"]["message"], (path, answer.text)
        form = re.sub(r"devices/.+", "devices/{index}", re.sub(r"faults/.+", "faults/{id}", path)).partition("?")[0]
        assert status in known[(form, method.lower())]
        assert "401" in known[(form, method.lower())] and "422" not in known[(form, method.lower())]


def test_who_waits_during_a_pause_is_told_when_the_server_ends(operated: ServerProcess) -> None:
    said = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8}
    assert call(operated, "POST", "/pause").json() == {"status": "paused"}
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(call, operated, "POST", CHAT, json={**said, "stream": each}) for each in (False, True)]
        until(lambda: load(operated) == 2)
        operated.process.send_signal(signal.SIGTERM)
        whole, stream = (each.result() for each in asked)
    assert whole.status_code == 503 and ENDING in whole.text
    assert ENDING in stream.text
