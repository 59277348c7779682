"""The spans of a story as plain data: names, begins and ends.

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
from serving.telemetry.tracing.failures import failure_of
from serving.telemetry.tracing.story import SEVERAL, Course, Story, Stretch


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


def span_of(story: Story, model: str, speed: float) -> Span:
    """Return the root span of a call, with all below it; `model` is the name that is served."""
    operation = operation_of(story.call.route if story.call else "")
    root = Span(f"{operation} {model}", _began(story), story.over_s)
    root.attributes = of_operation(operation, model, speed) | of_call(story.call)
    if story.courses:
        root.attributes |= of_request(story) | of_response(story, model)
    if failure := failure_of(story):
        root.error, root.attributes["error.type"] = failure.sentence, failure.kind
    if len(story.courses) == 1:
        _fill(root, story.courses[0])
    else:
        root.children = [_sequence(index, course) for index, course in enumerate(story.courses)]
    root.children += _delivery(story)
    root.end_s = max([root.end_s, *(child.end_s for child in root.children)])
    return _with_seconds(root)


def operation_of(route: str) -> str:
    """Return the operation of a call, by its path or gRPC method."""
    chats = "chat" in route.lower() or route.endswith(("/responses", "/messages"))
    return "chat" if chats else "text_completion"


def _began(story: Story) -> float:
    return story.courses[0].flight.request.arrival_s if story.call is None else story.call.arrival_s


def _sequence(index: int, course: Course) -> Span:
    """Return the span of one of several sequences that a call asked for."""
    span = Span(f"sequence {index}", course.flight.request.arrival_s, course.over_s)
    span.attributes = {
        "gen_ai.response.finish_reasons": [course.flight.finish],
        "gen_ai.usage.output_tokens": len(course.flight.tokens),
        "foreserve.energy.even_share_j": course.share_j,
    }
    span.error = "It ended before it was complete." if course.failed else ""
    _fill(span, course)
    return span


def _fill(span: Span, course: Course) -> None:
    """Add the phases of a request and their durations."""
    span.attributes["foreserve.device"] = course.flight.device
    span.attributes |= of_phases(course)
    span.events = list(course.events)
    span.children = list(_phases(course))


def _phases(course: Course) -> Iterator[Span]:
    flight, over_s = course.flight, course.over_s
    started_s = over_s if flight.started_s is None else flight.started_s
    queue = Span("queue", flight.request.arrival_s, started_s)
    if flight.classified_s is not None:
        queue.children.append(Span("classify", *flight.classified_s, {"foreserve.topic": flight.request.topic}))
    yield queue
    if flight.started_s is not None:
        first_s = over_s if flight.first_s is None else flight.first_s
        prefill = Span("prefill", flight.started_s, first_s)
        prefill.attributes["gen_ai.usage.input_tokens"] = flight.request.prompt_tokens
        prefill.attributes |= of_steps(course.prefill) if course.prefill else {}
        yield prefill
    for stretch in course.stretches:
        yield Span(_name(stretch), stretch.start_s, stretch.end_s, of_steps(stretch))


def _name(stretch: Stretch) -> str:
    if stretch.kind == SEVERAL:
        return "decode"
    return f"decode {stretch.kind}" if stretch.kind in ("ar", "sd") else stretch.kind


def _delivery(story: Story) -> list[Span]:
    """From the last token's instant until the answer was complete."""
    last = [course.flight.last_s for course in story.courses]
    if not last or story.call is None or any(course.failed for course in story.courses):
        return []
    return [Span("delivery", max(last), max(story.over_s, *last))]


def _with_seconds(span: Span) -> Span:
    span.attributes["foreserve.emulated_s"] = span.end_s - span.start_s
    for child in span.children:
        _with_seconds(child)
    return span
