"""The spans of a call trace as plain data: names, begins and ends.

Instants and seconds are emulated, as in `/metrics`; the exporter converts the instants into real time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from serving.telemetry.tracing.attributes import (
    Value,
    of_call,
    of_operation,
    of_phases,
    of_request,
    of_response,
    of_steps,
)
from serving.telemetry.tracing.call_trace import SEVERAL, CallTrace, SequenceTrace, StepSpan
from serving.telemetry.tracing.failures import failure_of


@dataclass(slots=True)
class Span:
    """A span from `start_s` to `end_s`; `error` is its failure, if any."""

    name: str
    start_s: float
    end_s: float
    attributes: dict[str, Value] = field(default_factory=dict)
    events: list[tuple[float, str, Mapping[str, Value]]] = field(default_factory=list)
    children: list["Span"] = field(default_factory=list)
    error: str = ""


def span_of(call_trace: CallTrace, model: str, speed: float) -> Span:
    """Return the root span of a call, with all below it; `model` is the name that is served."""
    operation = operation_of(call_trace.call.route if call_trace.call else "")
    root = Span(f"{operation} {model}", _began(call_trace), call_trace.over_s)
    root.attributes = of_operation(operation, model, speed) | of_call(call_trace.call)
    if call_trace.sequences:
        root.attributes |= of_request(call_trace) | of_response(call_trace, model)
    if failure := failure_of(call_trace):
        root.error, root.attributes["error.type"] = failure.sentence, failure.kind
    if len(call_trace.sequences) == 1:
        _fill(root, call_trace.sequences[0])
    else:
        root.children = [_sequence(index, sequence) for index, sequence in enumerate(call_trace.sequences)]
    root.children += _delivery(call_trace)
    root.end_s = max([root.end_s, *(child.end_s for child in root.children)])
    return _with_seconds(root)


def operation_of(route: str) -> str:
    """Return the operation of a call, by its path or gRPC method."""
    chats = "chat" in route.lower() or route.endswith(("/responses", "/messages"))
    return "chat" if chats else "text_completion"


def _began(call_trace: CallTrace) -> float:
    return call_trace.sequences[0].flight.request.arrival_s if call_trace.call is None else call_trace.call.arrival_s


def _sequence(index: int, sequence: SequenceTrace) -> Span:
    """Return the span of one of several sequences that a call asked for."""
    span = Span(f"sequence {index}", sequence.flight.request.arrival_s, sequence.over_s)
    span.attributes = {
        "gen_ai.response.finish_reasons": [sequence.flight.finish],
        "gen_ai.usage.output_tokens": len(sequence.flight.tokens),
        "foreserve.energy.even_share_j": sequence.share_j,
    }
    span.error = "It ended before it was complete." if sequence.failed else ""
    _fill(span, sequence)
    return span


def _fill(span: Span, sequence: SequenceTrace) -> None:
    """Add the phases of a request and their durations."""
    span.attributes["foreserve.device"] = sequence.flight.device
    span.attributes |= of_phases(sequence)
    span.events = list(sequence.events)
    span.children = list(_phases(sequence))


def _phases(sequence: SequenceTrace) -> Iterator[Span]:
    flight, over_s = sequence.flight, sequence.over_s
    started_s = over_s if flight.started_s is None else flight.started_s
    queue = Span("queue", flight.request.arrival_s, started_s)
    if flight.classified_s is not None:
        queue.children.append(Span("classify", *flight.classified_s, {"foreserve.topic": flight.request.topic}))
    yield queue
    if flight.started_s is not None:
        first_s = over_s if flight.first_s is None else flight.first_s
        prefill = Span("prefill", flight.started_s, first_s)
        prefill.attributes["gen_ai.usage.input_tokens"] = flight.request.prompt_tokens
        prefill.attributes |= of_steps(sequence.prefill) if sequence.prefill else {}
        yield prefill
    for step_span in sequence.step_spans:
        yield Span(_name(step_span), step_span.start_s, step_span.end_s, of_steps(step_span))


def _name(step_span: StepSpan) -> str:
    if step_span.kind == SEVERAL:
        return "decode"
    return f"decode {step_span.kind}" if step_span.kind in ("ar", "sd") else step_span.kind


def _delivery(call_trace: CallTrace) -> list[Span]:
    """From the last token's instant until the answer was complete."""
    last = [sequence.flight.last_s for sequence in call_trace.sequences]
    if not last or call_trace.call is None or any(sequence.failed for sequence in call_trace.sequences):
        return []
    return [Span("delivery", max(last), max(call_trace.over_s, *last))]


def _with_seconds(span: Span) -> Span:
    span.attributes["foreserve.emulated_s"] = span.end_s - span.start_s
    for child in span.children:
        _with_seconds(child)
    return span
