"""Traces on their way to a collector: over both protocols, with the parent that a call names, or into the void."""

import logging
import socket
import time
from typing import Any

import pytest

from serving.call import Call
from serving.telemetry.tracing.otlp import Otlp, exporter
from serving.telemetry.tracing.send import send
from serving.types import Request
from serving.usage_error import UsageError
from tests.serving.telemetry.tracing.collector import over_grpc, over_http
from tests.serving.telemetry.tracing.emulate import ROUTE, Edge, wall

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ORIGIN_NS = 1_704_067_200 * 10**9
SPEED = 4.0


def call_trace(flags: str = "01"):
    edge = Edge()
    headers = [(b"traceparent", f"00-{TRACE}-{PARENT}-{flags}".encode())]
    edge.submit(Request("a", 1.0, 100, 8), Call(1.0, headers, route=ROUTE, status="200"))
    return edge.run().told[0]


@pytest.mark.parametrize(("protocol", "collecting"), [("grpc", over_grpc), ("http/protobuf", over_http)])
def test_a_trace_reaches_its_collector(monkeypatch: pytest.MonkeyPatch, protocol, collecting) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", protocol)
    told = call_trace()
    with collecting() as collector:
        with Otlp(collector.url) as otlp:
            send(told, otlp.tracer, "moe", wall(SPEED))
        tree = collector.trace(TRACE, PARENT)
    assert collector.resource["service.name"] == "foreserve"
    assert told.trace_id == TRACE
    assert tree.names == ["queue", "prefill", "decode ar", "delivery"]
    assert tree.span.kind == tree.span.SPAN_KIND_SERVER
    # An emulated second is a quarter of a real one.
    assert tree.span.start_time_unix_nano == ORIGIN_NS + 10**9 // 4
    assert tree.real_s * SPEED == pytest.approx(tree.said["foreserve.emulated_s"], abs=1e-7)
    assert tree.said["foreserve.speed"] == SPEED


def test_the_environment_names_who_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "my-emulator")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=lab")
    with over_grpc() as collector:
        with Otlp(collector.url) as otlp:
            send(call_trace(), otlp.tracer, "moe", wall(1.0))
        collector.trace(TRACE, PARENT)
    assert collector.resource["service.name"] == "my-emulator"
    assert collector.resource["deployment.environment"] == "lab"


def test_what_its_parent_does_not_sample_is_not_sent_but_has_an_id() -> None:
    told = call_trace(flags="00")
    with over_grpc() as collector:
        with Otlp(collector.url) as otlp:
            send(told, otlp.tracer, "moe", wall(1.0))
        assert collector.spans == []
    assert told.trace_id == TRACE


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_a_collector_that_is_down_delays_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, protocol: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", protocol)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    told, clock = call_trace(), wall(1.0)
    with caplog.at_level(logging.WARNING):
        with Otlp(f"http://127.0.0.1:{port}") as otlp:
            thirds_s = []
            for _ in range(3):
                began = time.monotonic()
                for _ in range(100):
                    send(told, otlp.tracer, "moe", clock)
                thirds_s.append(time.monotonic() - began)
            time.sleep(0.5)
            began = time.monotonic()
        ending_s = time.monotonic() - began
    # Whoever waited for a collector would do so in each of them, a machine that is busy for a moment does not.
    assert 3 * min(thirds_s) < 10.0
    # Without a limit it would go on trying for more than 20 seconds.
    assert ending_s < 15.0
    assert 1 <= len([r for r in caplog.records if r.name.startswith("opentelemetry")]) <= 2


@pytest.mark.parametrize("endpoint", ["localhost:4317", "ftp://there", "http://", "4317"])
def test_an_endpoint_that_is_no_url_is_refused_in_a_sentence(endpoint: str) -> None:
    with pytest.raises(UsageError, match=r"--otlp-traces-endpoint is .*http://localhost:4317"):
        Otlp(endpoint)


def test_an_unknown_protocol_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json")
    with pytest.raises(UsageError, match=r"'http/json'.*grpc or http/protobuf"):
        Otlp("http://localhost:4317")


def test_a_variable_that_is_empty_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    Otlp("http://localhost:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
    with pytest.raises(UsageError, match="http/json"):
        Otlp("http://localhost:4317")


@pytest.mark.parametrize("endpoint", ["http://localhost:4318", "http://localhost:4318/"])
def test_an_endpoint_without_a_path_gets_the_usual_one(endpoint: str) -> None:
    sends: Any = exporter("http/protobuf", endpoint)
    assert sends._endpoint == "http://localhost:4318/v1/traces"
