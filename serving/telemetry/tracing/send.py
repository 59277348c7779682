"""OpenTelemetry spans of a call trace, handed to the exporter."""

from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, set_span_in_context

from serving.call import Call, text
from serving.clock import WallClock
from serving.telemetry.tracing.call_trace import CallTrace
from serving.telemetry.tracing.spans import Span, span_of


def send(call_trace: CallTrace, tracer: Tracer, model: str, clock: WallClock) -> None:
    """Send the trace of a call; `call_trace` then knows the trace's id."""
    root = span_of(call_trace, model, clock.speed)
    call_trace.trace_id = f"{_make(tracer, root, SpanKind.SERVER, clock, parent_of(call_trace.call)):032x}"


def parent_of(call: Call | None) -> Context:
    """Return the trace context that a call brings in its headers, or metadata."""
    carrier: Mapping[str, str] = {} if call is None else {text(name): text(value) for name, value in call.headers}
    return extract(carrier)


def _make(tracer: Tracer, span: Span, kind: SpanKind, clock: WallClock, parent: Context) -> int:
    """Make a span with all below it; return the id of its trace."""
    start_ns, end_ns = clock.unix_ns(span.start_s), clock.unix_ns(span.end_s)
    made = tracer.start_span(span.name, parent, kind, span.attributes, start_time=start_ns)
    if made.is_recording():
        for at_s, what, more in span.events:
            made.add_event(what, more, clock.unix_ns(at_s))
        if span.error:
            made.set_status(Status(StatusCode.ERROR, span.error))
        inside = set_span_in_context(made, parent)
        for child in span.children:
            _make(tracer, child, SpanKind.INTERNAL, clock, inside)
    made.end(end_ns)
    return made.get_span_context().trace_id
