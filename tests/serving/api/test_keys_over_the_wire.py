"""A real server with keys: every gRPC method by reflection, paths as no client library would write them, and `top`."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator

import grpc
import httpx
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from serving.api.grpc.guard import CLIENTS, PUBLIC, need_of
from serving.process.server_process import ServerProcess
from tests.conftest import SECRET

Code = grpc.StatusCode
WRONG = (None, "", "Bearer", "Bearer wrong", f"Basic {SECRET}", SECRET, f"Bearer {SECRET} ", f"Bearer {SECRET}x")


@pytest.fixture(scope="module")
def channel(small_emulator: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(small_emulator.grpc_url.removeprefix("grpc://")) as channel:
        yield channel


def methods(channel: grpc.Channel) -> list[str]:
    """Of all services, by reflection, without a key; and one of a service and one of a method that aren't there."""
    database = ProtoReflectionDescriptorDatabase(channel)
    pool = DescriptorPool(database)
    services = [pool.FindServiceByName(name) for name in database.get_services()]
    found = [f"/{service.full_name}/{method.name}" for service in services for method in service.methods]
    return [*found, "/foreserve.v1.Nobody/Nothing", "/foreserve.v1.Admin/Nothing", "/x"]


def code(channel: grpc.Channel, method: str, header: str | None, timeout_s: float = 20) -> grpc.StatusCode:
    """What an empty message comes to, in whatever way the method is called."""
    metadata = [] if header is None else [("authorization", header)]
    try:
        list(channel.stream_stream(method)(iter([b""]), metadata=metadata, timeout=timeout_s))
    except grpc.RpcError as error:
        return error.code()  # type: ignore[no-any-return, attr-defined]
    return Code.OK


def test_every_method_of_every_service_wants_a_key_but_health_and_reflection(channel: grpc.Channel) -> None:
    found = methods(channel)
    assert {method.split("/")[1] for method in found} >= {*CLIENTS, "foreserve.v1.Admin", *PUBLIC[:2]}
    for method in found:
        if method.split("/")[1] in PUBLIC:
            # A watch goes on for as long as it may.
            assert code(channel, method, None, timeout_s=1) not in (Code.UNAUTHENTICATED, Code.PERMISSION_DENIED)
            continue
        for header in WRONG:
            assert code(channel, method, header) is Code.UNAUTHENTICATED, (method, header)
    for method in ("/foreserve.v1.OpenAI/ListModels", "/foreserve.v1.Admin/ListDevices"):
        assert code(channel, method, f"Bearer {SECRET}") is Code.OK
    assert code(channel, "/foreserve.v1.Nobody/Nothing", f"Bearer {SECRET}") is Code.UNIMPLEMENTED


def test_what_clients_may_call_is_there(channel: grpc.Channel) -> None:
    found = methods(channel)
    names = [f"/{service}/{name}" for service, calls in CLIENTS.items() for name in calls if name != "*"]
    assert set(names) <= set(found)
    admins = [method for method in found[:-3] if need_of(method).name == "ADMIN_KEY"]
    # Whoever updates vLLM's service looks at what is new here: is it for clients, or not?
    assert [method for method in admins if "Admin" not in method] == [
        f"/vllm.grpc.engine.VllmEngine/{name}"
        for name in ("FlushCache", "StartProfile", "StopProfile", "SubscribeKvEvents")
    ]


def raw(child: ServerProcess, request: bytes) -> int:
    """The status of an HTTP request that is written by hand."""
    address = child.http_url.removeprefix("http://").split(":")
    with socket.create_connection((address[0], int(address[1])), 20) as sock:
        sock.sendall(request)
        return int(sock.makefile("rb").readline().split()[1])


@pytest.mark.parametrize(
    "line",
    [
        *("GET //v1/models", "GET /v1/../v1/models", "GET /health/../v1/models", "GET /v1/models/", "GET /v1%2fmodels"),
        *("GET /%76%31/models", "GET /v1/models%00", "GET /health%00", "GET /health/", "GET /health%2f..%2fv1/models"),
        *("HEAD /v1/models", "OPTIONS /v1/models", "OPTIONS *", "POST /invocations", "POST /tokenize", "POST /pause"),
        *(
            "POST /scale_elastic_ep",
            "POST /generative_scoring",
            "GET /foreserve/v1/devices",
            "GET /foreserve/v1/status",
        ),
        *("GET http://x/v1/models", "GET http://health/v1/models", "POST /health", "POST /metrics", "DELETE /ui"),
        *("GET /metrics/x", "GET /V1/models", "BREW /v1/models", "GET /nothing"),
    ],
)
def test_no_way_of_writing_a_request_gets_around_it(small_emulator: ServerProcess, line: str) -> None:
    for version in ("1.0", "1.1"):
        request = f"{line} HTTP/{version}\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
        # 400: what the parser takes for no HTTP.
        assert raw(small_emulator, request.encode()) in (400, 401)


def test_an_upgrade_to_a_websocket_is_refused(small_emulator: ServerProcess) -> None:
    head = "Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    for path in ("/v1/realtime", "/health"):
        status = raw(small_emulator, f"GET {path} HTTP/1.1\r\n{head}{key}".encode())
        # Where no library for websockets is installed, it is a request like others.
        assert status in (401, 403) or path == "/health"


def test_a_refusal_is_openais_error_and_what_is_for_everybody_is(small_emulator: ServerProcess) -> None:
    answer = httpx.post(f"{small_emulator.http_url}/invocations", json={}, timeout=60)
    assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
    error = json.loads(answer.content)["error"]
    assert error.keys() == {"message", "type", "param", "code"} and error["message"].endswith(".")
    for path in ("/health", "/ping", "/version", "/load", "/metrics", "/dcgm/metrics", "/ui", "/docs", "/openapi.json"):
        assert httpx.get(small_emulator.http_url + path, timeout=60).status_code == 200, path


def test_a_body_that_nobody_may_send_is_not_read(small_emulator: ServerProcess) -> None:
    url = small_emulator.http_url.removeprefix("http://").split(":")
    with socket.create_connection((url[0], int(url[1])), 20) as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n{")
        assert b" 401 " in sock.makefile("rb").readline()


def test_top_shows_a_key(small_emulator: ServerProcess) -> None:
    command = [sys.executable, "-m", "serving.cli", "top", small_emulator.http_url, "--once", "--interval", "0.1"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert told.returncode == 2 and "wants an API key" in told.stderr
    told = subprocess.run([*command, "--api-key", SECRET], capture_output=True, text=True, timeout=60)
    assert told.returncode == 0 and "qwen3-30b-a3b" in told.stdout


def test_the_key_is_in_no_command_line_of_this_machine(small_emulator: ServerProcess) -> None:
    assert shutil.which("ps")
    shown = subprocess.run(["ps", "-eww", "-o", "pid=,args="], capture_output=True, text=True).stdout
    assert str(small_emulator.process.pid) in shown and SECRET not in shown
