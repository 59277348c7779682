"""A real server, observed: traces, log lines and a step log of the same requests. At the end it is told to stop."""

import concurrent.futures
import contextlib
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import grpc
import httpx
import openai
import psutil
import pytest
from smg_grpc_proto import vllm_engine_pb2, vllm_engine_pb2_grpc

from serving.api.pb.foreserve.v1 import openai_pb2, openai_pb2_grpc
from serving.edge.refusals import ENDING
from serving.process.server_process import ServerProcess
from serving.telemetry.step_log import read_step_log
from tests.patience import until
from tests.serving.observed_server import MODEL, PARENT, SPEED, Observed

TOKENS = 60
STREAMS = 8
# So many that a request is under way for seconds.
MOVED_TOKENS = 900
LONG = {"model": MODEL, "prompt": "Hello", "max_tokens": 1000, "ignore_eos": True}
QUESTION = [{"role": "user", "content": "What is a contract?"}]


@pytest.fixture
def observed(observed_emulator: Observed) -> Observed:
    return observed_emulator


def test_a_streamed_chat_is_a_tree_of_spans_whose_durations_are_those_of_the_metrics(
    observed: Observed,
) -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    client = observed.client(trace_id, **{"x-request-id": "mine"})
    names = {
        "gen_ai.latency.time_to_first_token": "vllm:time_to_first_token_seconds_sum",
        "gen_ai.latency.time_in_queue": "vllm:request_queue_time_seconds_sum",
        "gen_ai.latency.time_in_model_prefill": "vllm:request_prefill_time_seconds_sum",
        "gen_ai.latency.time_in_model_decode": "vllm:request_decode_time_seconds_sum",
        "gen_ai.latency.time_in_model_inference": "vllm:request_inference_time_seconds_sum",
        "gen_ai.latency.e2e": "vllm:e2e_request_latency_seconds_sum",
    }
    before = {name: observed.metric(metric) for name, metric in names.items()}
    energy = observed.metric("foreserve_energy_joules_total")
    ids = set()
    began = time.time()
    with client.chat.completions.create(
        model=MODEL,
        messages=QUESTION,
        max_tokens=TOKENS,
        temperature=0.7,
        stream=True,
        extra_body={"ignore_eos": True, "slo": "standard"},
    ) as stream:
        for chunk in stream:
            ids.add(chunk.id)
    took_s = time.time() - began
    root = observed.collector.trace(trace_id, PARENT)
    said = root.said
    assert root.span.name == f"chat {MODEL}"
    assert root.names[:2] == ["queue", "prefill"] and root.names[-1] == "delivery"
    decode = root.children[2:-1]
    assert decode and all(child.span.name == "decode ar" for child in decode)
    assert root.children[0].names == ["classify"]
    assert observed.collector.resource["service.name"] == "under-test"
    for name, metric in names.items():
        assert said[name] == pytest.approx(observed.metric(metric) - before[name], abs=1e-6), name
    queue, prefill = root.children[0], root.children[1]
    assert queue.real_s * SPEED == pytest.approx(said["gen_ai.latency.time_in_queue"], abs=1e-6)
    assert prefill.real_s * SPEED == pytest.approx(said["gen_ai.latency.time_in_model_prefill"], abs=1e-6)
    assert sum(child.said["foreserve.tokens"] for child in decode) == TOKENS - 1
    # It was alone: the steps, and their joules, are its own.
    used = observed.metric("foreserve_energy_joules_total") - energy
    assert said["foreserve.energy.even_share_j"] == pytest.approx(used, rel=0.02)
    # Its end is told of when the edge gets to it.
    assert began - 0.2 < root.span.start_time_unix_nano / 1e9 and root.real_s < took_s + 5.0
    assert said["gen_ai.request.temperature"] == 0.7 and said["gen_ai.request.max_tokens"] == TOKENS
    assert (said["gen_ai.usage.output_tokens"], said["gen_ai.response.finish_reasons"]) == (TOKENS, ["length"])
    assert ids == {said["gen_ai.request.id"]} == {"chatcmpl-mine"}
    assert (said["foreserve.slo.class"], said["foreserve.slo.met"]) == ("standard", True)
    assert said["foreserve.topic"]
    assert root.span.status.code == root.span.status.STATUS_CODE_UNSET
    line = observed.line(request_id="chatcmpl-mine")
    assert (line["trace_id"], line["output_tokens"], line["slo_class"]) == (trace_id, TOKENS, "standard")
    assert line["ttft_s"] == pytest.approx(said["gen_ai.latency.time_to_first_token"], abs=1e-6)


def test_grpc_metadata_has_the_parent_too(observed: Observed) -> None:
    trace_id = "1" * 32
    metadata = (("traceparent", f"00-{trace_id}-{PARENT}-01"), ("x-request-id", "by-grpc"))
    with grpc.insecure_channel(observed.child.grpc_url.removeprefix("grpc://")) as channel:
        stub = openai_pb2_grpc.OpenAIStub(channel)
        stub.CreateCompletion(
            openai_pb2.CompletionRequest(model=MODEL, prompt={"string_value": "Once"}, max_tokens=5, n=2),
            metadata=metadata,
        )
        with contextlib.suppress(grpc.RpcError):
            stub.CreateCompletion(
                openai_pb2.CompletionRequest(model=MODEL, prompt={"string_value": "Once"}, max_tokens=-5),
                metadata=(("traceparent", f"00-{'2' * 32}-{PARENT}-01"),),
            )
        with contextlib.suppress(grpc.RpcError):
            none = vllm_engine_pb2.GenerateRequest(request_id="none", text="Once", sampling_params={"top_p": 2.0})
            vllm_engine_pb2_grpc.VllmEngineStub(channel).Generate(
                none, metadata=(("traceparent", f"00-{'8' * 32}-{PARENT}-01"),)
            ).next()
    root = observed.collector.trace(trace_id, PARENT)
    assert root.span.name == f"text_completion {MODEL}"
    assert (root.said["rpc.service"], root.said["rpc.method"]) == ("foreserve.v1.OpenAI", "CreateCompletion")
    assert root.names == ["sequence 0", "sequence 1", "delivery"]
    assert "by-grpc" in observed.line(trace_id=trace_id)["request_id"]
    for trace_id in ("2" * 32, "8" * 32):
        wrong = observed.collector.trace(trace_id, PARENT)
        assert wrong.said["error.type"] == "INVALID_ARGUMENT"


def test_who_is_turned_away_and_who_goes_away_have_spans_that_say_so(observed: Observed) -> None:
    with pytest.raises(openai.RateLimitError):
        observed.client("3" * 32).chat.completions.create(
            model=MODEL, messages=QUESTION, stream=True, extra_body={"ttft_ms": 0.001}
        )
    away = observed.collector.trace("3" * 32, PARENT)
    assert away.span.status.code == away.span.status.STATUS_CODE_ERROR
    assert "predicted" in away.span.status.message
    assert (away.said["error.type"], away.said["http.response.status_code"]) == ("ttft", 429)
    assert observed.line(trace_id="3" * 32)["error"] == "ttft"
    with observed.client("4" * 32).chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=800, stream=True, extra_body={"ignore_eos": True}
    ) as stream:
        next(iter(stream))
    gone = observed.collector.trace("4" * 32, PARENT)
    assert gone.said["error.type"] == "cancelled"
    assert gone.span.status.code == gone.span.status.STATUS_CODE_ERROR
    assert observed.line(trace_id="4" * 32)["finish_reason"] == "abort"
    with pytest.raises(openai.NotFoundError):
        observed.client("5" * 32).chat.completions.create(model="nobody", messages=QUESTION)
    assert observed.collector.trace("5" * 32, PARENT).said["error.type"] == "404"


@pytest.mark.slow
def test_a_request_whose_device_is_lost_says_that_it_moved(observed: Observed) -> None:
    # One goes to the second device.
    streams = [
        observed.client(digit * 32).completions.create(
            model=MODEL, prompt="Once", max_tokens=MOVED_TOKENS, stream=True, extra_body={"ignore_eos": True}
        )
        for digit in "67"
    ]
    for stream in streams:
        next(stream)
    fault = {"fault": "lost: device=1, for=2"}
    told = httpx.post(f"{observed.child.http_url}/foreserve/v1/faults", json=fault, timeout=60)
    assert told.status_code == 200, told.text
    for stream in streams:
        for _ in stream:
            pass
    roots = {digit: observed.collector.trace(digit * 32, PARENT) for digit in "67"}
    (moved,) = [digit for digit, root in roots.items() if root.span.events]
    (stayed,) = set(roots) - {moved}
    root = roots[moved]
    assert [event.name for event in root.span.events] == ["moved"]
    assert root.names.count("prefill") == 2 and roots[stayed].names.count("prefill") == 1
    assert root.said["gen_ai.usage.output_tokens"] == MOVED_TOKENS and root.said["foreserve.device"] == 0
    assert observed.line(fault="lost", begins=True, device=1)["level"]
    assert observed.line(state="lost")["level"] == "warning"
    assert observed.line(trace_id=moved * 32)["moves"] == 1
    assert "moves" not in observed.line(trace_id=stayed * 32)
    observed.line(state="serving", device=1)


def test_what_it_prints_works(observed: Observed) -> None:
    said = observed.printed.read_text()
    assert "Ctrl-C" in said
    assert {int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", said)} == set(ports(observed.child))
    commands = [line.strip() for line in said.splitlines() if line.startswith("  curl") or " call grpc" in line]
    assert [command.split()[0] for command in commands] == ["curl", sys.executable]
    for command in commands:
        result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=150)
        assert result.returncode == 0, result.stderr
        assert '"delta"' in result.stdout


def ports(child: ServerProcess) -> tuple[int, int]:
    http, grpc = (int(url.rpartition(":")[2]) for url in (child.http_url, child.grpc_url))
    return http, grpc


def lines_of_a_stream(client: httpx.Client, url: str, after_s: float) -> list[str]:
    """The lines of a stream that begins after some real seconds."""
    time.sleep(after_s)
    with client.stream("POST", f"{url}/v1/completions", json={**LONG, "stream": True}, timeout=180) as answer:
        return [line for line in answer.iter_lines() if line]


@pytest.mark.timeout(400)
def test_ctrl_c_leaves_nothing_but_lines_of_logs_that_are_objects(observed: Observed) -> None:
    process = observed.child.process
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) > 5
    # Those too that other tests have added.
    listed = httpx.get(f"{observed.child.http_url}/foreserve/v1/devices", timeout=60).json()["devices"]
    devices = sorted(device["index"] for device in listed)
    # One client for all: making one takes longer than a stream is ahead of the next.
    with httpx.Client() as client, concurrent.futures.ThreadPoolExecutor(STREAMS + 1) as pool:
        url = observed.child.http_url
        # Each has come further than the next one, of which there may be no token yet.
        streams = [pool.submit(lines_of_a_stream, client, url, 0.05 * number) for number in range(STREAMS)]
        whole = pool.submit(client.post, f"{url}/v1/completions", json=LONG, timeout=180)
        until(lambda: observed.under_way() == STREAMS + 1)
        # As a terminal does it: to every process of the group.
        for member in (process, *family):
            # One of these may have ended by itself, such as what Ray starts to look at the machine.
            with contextlib.suppress(psutil.NoSuchProcess):
                member.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    # None is taken for a whole answer.
    assert all(any(ENDING in line for line in stream.result()[-3:]) for stream in streams)
    assert whole.result().status_code == 503 and ENDING in whole.result().text
    _, alive = psutil.wait_procs(family, timeout=60)
    assert not alive
    for port in ports(observed.child):
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", port)) != 0
    assert "Traceback" not in observed.log.read_text()
    assert all({"timestamp", "level", "logger", "message"} <= set(line) for line in observed.lines())
    steps = read_step_log(observed.steps)
    assert {step.device for step in steps} == set(devices) >= {0, 1} and len(steps) > 100
    out = observed.steps.with_name("trace.json.gz")
    command = [str(Path(sys.executable).parent / "foreserve"), "trace", str(observed.steps), "--out", str(out)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=150)
    told = f"{len(steps):,} steps of devices {', '.join(map(str, devices))}"
    assert made.returncode == 0 and told in made.stdout, made.stderr
