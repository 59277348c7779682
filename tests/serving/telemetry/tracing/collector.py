"""A collector of traces on loopback, over HTTP and gRPC, that keeps what it is sent."""

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PATIENCE_S = 30.0


class Collector:
    """Spans by trace, and the attributes of whoever sent them."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Span] = []
        self.resource: dict[str, Any] = {}
        self._news = threading.Condition()

    def take(self, request: ExportTraceServiceRequest) -> None:
        with self._news:
            for each in request.resource_spans:
                self.resource = attributes(each.resource)
                self.spans += [span for scope in each.scope_spans for span in scope.spans]
            self._news.notify_all()

    def trace(self, trace_id: str, root: str = "") -> "Tree":
        """The trace of an id, once its root, whose parent has the id `root`, is here (it comes last)."""
        end = time.monotonic() + PATIENCE_S
        with self._news:
            while True:
                found = [span for span in self.spans if span.trace_id.hex() == trace_id]
                roots = [span for span in found if span.parent_span_id.hex() == root]
                if roots:
                    return Tree(found, roots[0])
                assert self._news.wait(end - time.monotonic()), f"no trace {trace_id}"


class Tree:
    """A root span with those below it."""

    def __init__(self, spans: list[Span], span: Span) -> None:
        self.span = span
        below = [each for each in spans if each.parent_span_id == span.span_id]
        self.children = [Tree(spans, each) for each in sorted(below, key=lambda each: each.start_time_unix_nano)]

    @property
    def names(self) -> list[str]:
        return [child.span.name for child in self.children]

    @property
    def said(self) -> dict[str, Any]:
        return attributes(self.span)

    @property
    def real_s(self) -> float:
        return (self.span.end_time_unix_nano - self.span.start_time_unix_nano) / 1e9


def attributes(of: Any) -> dict[str, Any]:
    """Attributes as Python has them."""
    said = {}
    for each in of.attributes:
        value = getattr(each.value, each.value.WhichOneof("value"))
        said[each.key] = [item.string_value for item in value.values] if hasattr(value, "values") else value
    return said


@contextlib.contextmanager
def over_http() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = ExportTraceServiceRequest()
            request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
            known = self.path == "/v1/traces"
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            if known:
                collector.take(request)

        def log_message(self, *args: Any) -> None:
            """Not to stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield collector
    server.shutdown()
    server.server_close()


@contextlib.contextmanager
def over_grpc() -> Iterator[Collector]:
    collector = Collector()

    class Servicer(TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> ExportTraceServiceResponse:
            collector.take(request)
            return ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    add_TraceServiceServicer_to_server(Servicer(), server)
    collector.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield collector
    server.stop(None)
