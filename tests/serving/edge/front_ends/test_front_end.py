"""Does vLLM's own front end, unmodified, take the emulated devices for its engine?"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import openai
import pytest
import zmq
import zmq.asyncio
from vllm.sampling_params import SamplingParams
from vllm.v1.engine import (
    EngineCoreOutputs,
    EngineCoreReadyResponse,
    EngineCoreRequest,
    EngineCoreRequestType,
    UtilityOutput,
)
from vllm.v1.engine.utils import EngineHandshakeMetadata, EngineZmqAddresses
from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

from serving.edge.front_ends import engine_sockets
from serving.edge.front_ends.engine_sockets import IDENTITY, ApiServer, shake_hands
from serving.edge.front_ends.front_end import FrontEnd, answered, check_fits
from serving.edge.preflight import check_front_end, free_port
from serving.edge.request_bounds import OutOfBounds
from serving.process.server_process import ServerProcess, server
from serving.scenario.scenario import BUNDLED, ScenarioError
from serving.token_source.vllm_source import probe

MODEL, NAME = BUNDLED / "foreserve-tiny", "theirs"
START_S, ENDED_S = 120.0, 30.0
READY = EngineCoreReadyResponse(
    max_model_len=64,
    num_gpu_blocks=4,
    block_size=16,
    dp_stats_address=None,
    dtype="float32",
    vllm_version="any",
    world_size=1,
    data_parallel_size=1,
    tensor_parallel_size=1,
    pipeline_parallel_size=1,
    decode_context_parallel_size=1,
    data_parallel_rank=0,
    max_num_seqs=1,
    max_num_batched_tokens=1,
    instance_id="i",
    supports_lora=False,
    max_loras=0,
)


def bound(
    context: zmq.asyncio.Context, kind: int, address: str = "tcp://127.0.0.1:*"
) -> tuple[zmq.asyncio.Socket, str]:
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.bind(address)
    return socket, bytes(socket.getsockopt(zmq.LAST_ENDPOINT)).decode().rstrip("\0")


async def greeted(greeting: zmq.asyncio.Socket) -> dict[str, object]:
    identity, said = await greeting.recv_multipart()
    assert identity == IDENTITY
    words: dict[str, object] = msgspec.msgpack.decode(said)
    return words


def test_an_engine_greets_each_front_end_once_and_serves_all_of_its_servers() -> None:
    async def main() -> None:
        context = zmq.asyncio.Context()
        first, address = bound(context, zmq.ROUTER)
        joining = asyncio.create_task(shake_hands(address, READY))
        assert (await greeted(first))["status"] == "HELLO"
        # It ends without an answer, and another one takes its place.
        first.close()
        await asyncio.sleep(0.2)
        second, _ = bound(context, zmq.ROUTER, address)
        assert await greeted(second) == {"status": "HELLO", "local": False, "headless": True}
        inputs, outputs = (
            zip(*(bound(context, kind) for _ in range(2)), strict=True) for kind in (zmq.ROUTER, zmq.PULL)
        )
        (requests, to), (answers, back) = inputs, outputs
        where = EngineHandshakeMetadata(EngineZmqAddresses(inputs=list(to), outputs=list(back)), {})
        await second.send_multipart([IDENTITY, msgspec.msgpack.encode(where)])
        assert (await greeted(second))["status"] == "READY"
        servers = await joining
        seen = list[tuple[ApiServer, list[bytes]]]()
        for each, socket in zip(servers, requests, strict=True):
            identity, ready = await socket.recv_multipart()
            assert (
                identity == IDENTITY
                and msgspec.msgpack.decode(ready)["max_model_len"] == asdict(READY)["max_model_len"]
            )
            each.listen(lambda server, frames: seen.append((server, frames)))
            for number in range(3):
                await socket.send_multipart([IDENTITY, b"\x01", bytes([number])])
        while len(seen) < 6:
            await asyncio.sleep(0.01)
        assert [frames for server, frames in seen if server is servers[1]] == [[b"\x01", bytes([n])] for n in range(3)]
        for each, socket in zip(servers, answers, strict=True):
            each.send(EngineCoreOutputs(utility_output=answered(7, "get_supported_tasks")))
            each.send(EngineCoreOutputs(utility_output=answered(8, "profile")))
            known, unknown = [MsgpackDecoder(EngineCoreOutputs).decode(await socket.recv_multipart()) for _ in range(2)]
            assert isinstance(known.utility_output, UtilityOutput) and known.utility_output.failure_message is None
            assert "'profile'" in unknown.utility_output.failure_message
        requests[0].close()
        await asyncio.wait_for(servers[0].gone(), ENDED_S)
        for each in servers:
            each.close()
        context.destroy(0)

    asyncio.run(asyncio.wait_for(main(), ENDED_S))


@pytest.mark.parametrize(
    ("prompt", "params", "sentence"),
    [
        (64, {}, "prompt has 64 tokens"),
        (3, {"stop": ["a"] * 65}, "`stop` has 65 entries"),
        (3, {"extra_args": {"foreserve_known_tokens": [1]}}, "`vllm_xargs` may have"),
    ],
)
def test_a_request_that_no_front_end_of_vllms_would_send_is_refused(
    prompt: int, params: dict[str, object], sentence: str
) -> None:
    with pytest.raises((ValueError, OutOfBounds), match=sentence):
        check_fits(request_of(prompt, **params), READY.max_model_len)


@pytest.mark.parametrize(("asked", "given"), [(5, 5), (2**40, 61), (None, 61)])
def test_an_answer_ends_where_the_context_does(asked: int | None, given: int) -> None:
    request = request_of(3, max_tokens=asked)
    check_fits(request, READY.max_model_len)
    assert request.sampling_params.max_tokens == given


def request_of(prompt: int, **params: object) -> EngineCoreRequest:
    request = probe("a", 5, 64)
    request.prompt_token_ids = [1] * prompt
    for name, value in params.items():
        setattr(request.sampling_params, name, value)
    return request


@pytest.mark.parametrize("addresses", [([], []), (["x"], ["y"]), (["tcp://127.0.0.1:1"], [])])
def test_a_front_end_without_addresses_is_none(addresses: tuple[list[str], list[str]]) -> None:
    async def main() -> None:
        context = zmq.asyncio.Context()
        peer, address = bound(context, zmq.ROUTER)
        joining = asyncio.create_task(shake_hands(address, READY))
        await greeted(peer)
        inputs, outputs = addresses
        where = EngineHandshakeMetadata(EngineZmqAddresses(inputs=inputs, outputs=outputs), {})
        await peer.send_multipart([IDENTITY, msgspec.msgpack.encode(where)])
        with pytest.raises((ValueError, zmq.ZMQError)):
            await joining
        context.destroy(0)

    asyncio.run(asyncio.wait_for(main(), ENDED_S))


def test_a_front_end_that_is_not_where_it_says_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_sockets, "CONNECT_S", 0.3)

    async def main() -> None:
        context = zmq.asyncio.Context()
        peer, address = bound(context, zmq.ROUTER)
        joining = asyncio.create_task(shake_hands(address, READY))
        await greeted(peer)
        nowhere = ["tcp://127.0.0.1:1"]
        where = EngineHandshakeMetadata(EngineZmqAddresses(inputs=nowhere, outputs=nowhere), {})
        await peer.send_multipart([IDENTITY, msgspec.msgpack.encode(where)])
        [server] = await joining
        await server.gone()
        server.close()
        context.destroy(0)

    asyncio.run(asyncio.wait_for(main(), ENDED_S))


class Sent(list[EngineCoreOutputs]):
    """An API server that keeps what it is sent."""

    def send(self, outputs: EngineCoreOutputs) -> None:
        self.append(outputs)


def test_a_request_that_cannot_be_read_ends_with_an_error_if_its_id_can() -> None:
    dropped: list[object] = []
    observer = SimpleNamespace(on_dropped=lambda *told: dropped.append(told))
    core: Any = SimpleNamespace(devices=SimpleNamespace(observer=observer))
    front_end, sent = FrontEnd("ipc://x", core, READY), Sent()
    kind = EngineCoreRequestType.ADD.value
    front_end._take(sent, [kind, msgspec.msgpack.encode(["a", "no tokens"])])  # type: ignore[arg-type]
    [outputs] = sent
    assert outputs.finished_requests == {"a"} and "can't be read" in outputs.outputs[0].stop_reason
    front_end._take(sent, [kind, b"\xc1"])  # type: ignore[arg-type]
    assert len(sent) == 1 and len(dropped) == 2


def test_a_call_that_fails_is_answered_so() -> None:
    dropped: list[object] = []
    observer = SimpleNamespace(on_dropped=lambda *told: dropped.append(told))
    core: Any = SimpleNamespace(devices=SimpleNamespace(observer=observer))
    front_end, sent = FrontEnd("ipc://x", core, READY), Sent()
    call = [EngineCoreRequestType.UTILITY.value, msgspec.msgpack.encode((0, 7, ["no name"], ()))]
    front_end._take(sent, call)  # type: ignore[arg-type]
    [outputs] = sent
    assert outputs.utility_output.call_id == 7 and "TypeError" in outputs.utility_output.failure_message
    assert len(dropped) == 1


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:8150", "tcp://[::1]:1", "tcp://gpu-7.lan:65535", "ipc:///tmp/x", ""]
)
def test_an_address_that_can_be_is_taken(address: str) -> None:
    check_front_end(address)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8150", "tcp://127.0.0.1", "tcp://:1", "tcp://a:0", "tcp://a:65536", "x"]
)
def test_one_that_cannot_be_is_refused_in_a_sentence(address: str) -> None:
    with pytest.raises(ScenarioError, match=r"`front_end` is '.*': it must be vllm-rs, tcp://HOST:PORT"):
        check_front_end(address)


def vllm_serve(port: int, handshake: int, log: Path) -> "subprocess.Popen[bytes]":
    """vLLM's own server, as its users start it, without an engine of its own."""
    command = [str(Path(sys.executable).with_name("vllm")), "serve", str(MODEL), "--served-model-name", NAME]
    command += ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", "2048"]
    command += ["--data-parallel-size", "1", "--data-parallel-size-local", "0"]
    command += ["--data-parallel-address", "127.0.0.1", "--data-parallel-rpc-port", str(handshake)]
    with log.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)


def port() -> int:
    with free_port("127.0.0.1", 0, "port") as sock:
        return int(sock.getsockname()[1])


def until_up(url: str, process: "subprocess.Popen[bytes]") -> None:
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s and process.poll() is None:
        try:
            if httpx.get(f"{url}/health").status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"vLLM's front end is not up: {process.poll()}")


@pytest.fixture
def joined(tmp_path: Path) -> Iterator[tuple[ServerProcess, str, "subprocess.Popen[bytes]", list[str]]]:
    """A server of ours, vLLM's front end before it, and how to start the latter again."""
    ports = port(), port()
    options = ("--token-model", "foreserve-tiny", "--front-end", f"tcp://127.0.0.1:{ports[1]}", "--speed", "0.25")
    front = vllm_serve(*ports, tmp_path / "first")
    fronts = [front]
    try:
        with server(*options, quiet=True, log=tmp_path / "ours") as child:
            url = f"http://127.0.0.1:{ports[0]}"
            until_up(url, front)

            def again() -> str:
                fronts.append(vllm_serve(*ports, tmp_path / "second"))
                until_up(url, fronts[-1])
                return url

            yield child, url, front, again  # type: ignore[misc]
    finally:
        for each in fronts:
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)


def ask(url: str, model: str) -> str:
    """A seeded stream."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="-")
    chunks = client.completions.create(model=model, prompt="Hello", max_tokens=40, seed=5, stream=True)
    return "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)


def running(child: ServerProcess) -> float:
    told = httpx.get(f"{child.http_url}/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in told if line.startswith("vllm:num_requests_running{"))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_an_unmodified_vllm_serves_what_our_own_edge_does_and_may_come_back(joined: tuple) -> None:  # type: ignore[type-arg]
    child, url, front, again = joined
    ours = openai.OpenAI(base_url=f"{child.http_url}/v1", api_key="-").models.list().data[0].id
    text = ask(child.http_url, ours)
    assert ask(url, NAME) == text and len(text) > 20
    metrics = httpx.get(f"{url}/metrics").text
    assert 'vllm:generation_tokens_total{engine="0",model_name="theirs"} 40.0' in metrics
    assert 'vllm:prompt_tokens_total{engine="0",model_name="theirs"}' in metrics
    # Of the emulated devices, not of vLLM's engine that makes the text.
    assert 'block_size="16"' in metrics
    body = {"model": NAME, "prompt": "Hello", "max_tokens": 2000, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as answer:
        lines = answer.iter_lines()
        next(lines)
        assert running(child) == 1
        os.killpg(front.pid, signal.SIGKILL)
    end_s = time.monotonic() + ENDED_S
    while running(child) and time.monotonic() < end_s:
        time.sleep(0.2)
    assert running(child) == 0, "nobody reads that any more"
    assert ask(child.http_url, ours) == text, "our own edge serves on"
    assert ask(again(), NAME) == text


class Recorder:
    """A core that notes which requests it is asked for; a closed `gate` keeps them waiting."""

    def __init__(self) -> None:
        self.in_flight = set[str]()
        self.added, self.cancelled = list[str](), list[str]()
        self.gate = asyncio.Event()

    async def add_request_async(self, request: EngineCoreRequest, sink: Any) -> None:
        await self.gate.wait()
        self.added.append(request.request_id)

    def cancel(self, ids: list[str]) -> None:
        self.cancelled += ids

    def flight(self, id: str) -> Any:
        return id if id in self.in_flight else None


@pytest.mark.parametrize("turns", [0, 3])
def test_a_request_that_is_aborted_before_it_is_in_flight_never_is(turns: int) -> None:
    """Read together with its abort, or waiting at the gate."""

    async def main() -> None:
        core, encoder = Recorder(), MsgpackEncoder()
        front_end = FrontEnd("anywhere", core, READY)  # type: ignore[arg-type]  # what a front end asks of it
        server: Any = SimpleNamespace(send=lambda outputs: pytest.fail(f"nobody waits for {outputs}"))

        def take(kind: EngineCoreRequestType, message: Any) -> None:
            front_end._take(server, [kind.value, *encoder.encode(message)])

        for id in ("gone", "stays"):
            params = SamplingParams(max_tokens=9)
            take(EngineCoreRequestType.ADD, EngineCoreRequest(id, [1, 2], None, params, None, 0.0, None, None, None))
        for _ in range(turns):
            await asyncio.sleep(0)
        take(EngineCoreRequestType.ABORT, ["gone"])
        core.gate.set()
        await asyncio.sleep(0.05)
        assert core.added == ["stays"] and front_end.known(["gone", "stays"]) == ["stays"]

    asyncio.run(main())


def test_a_request_with_the_id_of_one_in_flight_is_dropped_and_the_others_are_not_looked_at() -> None:
    async def main() -> None:
        core, encoder = Recorder(), MsgpackEncoder()
        core.gate.set()
        core.in_flight.add("there")
        server: Any = None
        front_end = FrontEnd("anywhere", core, READY)  # type: ignore[arg-type]  # what a front end asks of it
        for id in ("there", "new"):
            params = SamplingParams(max_tokens=9)
            request = EngineCoreRequest(id, [1, 2], None, params, None, 0.0, None, None, None)
            front_end._take(server, [EngineCoreRequestType.ADD.value, *encoder.encode(request)])
        await asyncio.sleep(0.01)
        assert core.added == ["new"]

    asyncio.run(main())
