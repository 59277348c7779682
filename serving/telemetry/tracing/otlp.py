"""OTLP export: sends traces to a collector of OpenTelemetry's protocol, from a thread of its own.

OpenTelemetry's own variables hold (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`,
`OTEL_EXPORTER_OTLP_TRACES_HEADERS`, `OTEL_BSP_...`), but for what the command line says. The protocol is gRPC unless
`OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` says `http/protobuf`, as in vLLM.
"""

import logging
import os
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from serving.usage_error import UsageError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

PROTOCOLS = ("grpc", "http/protobuf")
# What is left is sent when the server ends, if the collector takes it in so many seconds; then sending is
# broken off, which takes so many at most.
FLUSH_S, ABORT_S = 3.0, 1.0
# A collector that is down is complained of once in so many seconds, by whichever of these.
SELDOM_S = 60.0
COMPLAINING = (
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.sdk._shared_internal",
)


class Otlp:
    """Exports what `tracer` makes to an endpoint while its context lasts. Raise `UsageError` if it can't."""

    tracer: "Tracer"

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        # To OpenTelemetry, a variable that is empty is not set.
        told = (os.environ.get(f"OTEL_EXPORTER_OTLP_{which}PROTOCOL") for which in ("TRACES_", ""))
        self._protocol = next(filter(None, told), "grpc")
        if self._protocol not in PROTOCOLS:
            raise UsageError(
                f"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is {self._protocol!r}: it must be {' or '.join(PROTOCOLS)}."
            )
        url = urlparse(endpoint)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise UsageError(
                f"--otlp-traces-endpoint is {endpoint!r}: it must be a URL, such as http://localhost:4317 (gRPC), "
                "or http://localhost:4318/v1/traces with OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf."
            )

    def __enter__(self) -> "Otlp":
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._throttle = LogThrottle()
        for name in COMPLAINING:
            logging.getLogger(name).addFilter(self._throttle)
        self._exporter = exporter(self._protocol, self._endpoint)
        self._provider = TracerProvider(resource=resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self.tracer = self._provider.get_tracer("foreserve")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # It would try for half a minute.
        flush = threading.Thread(target=self._provider.shutdown, daemon=True)
        flush.start()
        flush.join(FLUSH_S)
        if flush.is_alive():
            self._exporter.shutdown()
            # What it says of that is said by the thread.
            flush.join(ABORT_S)
        for name in COMPLAINING:
            logging.getLogger(name).removeFilter(self._throttle)


def exporter(protocol: str, endpoint: str) -> "SpanExporter":
    """Return the exporter of a protocol. An HTTP URL without a path gets the usual one."""
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

        return GrpcExporter(endpoint=endpoint)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

    return HttpExporter(
        endpoint=endpoint if urlparse(endpoint).path.strip("/") else f"{endpoint.rstrip('/')}/v1/traces"
    )


def resource() -> Any:
    """Return the resource that sends the traces: `foreserve`, unless the environment names another."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource

    said = Resource.create()
    named = not str(said.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service")
    return said if named else said.merge(Resource({SERVICE_NAME: "foreserve"}))


class LogThrottle(logging.Filter):
    """Lets one complaint through in `SELDOM_S`: what can't be sent is dropped, and serving goes on."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + SELDOM_S
        return True
