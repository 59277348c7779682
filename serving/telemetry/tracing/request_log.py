"""A log line for each request: one that was served, failed, was broken off, or turned away."""

import logging
from typing import Any

from serving.process.logs import fields
from serving.telemetry.tracing.failures import failure_of
from serving.telemetry.tracing.story import Course, Story
from serving.types import NEVER

log = logging.getLogger("foreserve.requests")


def log_request(story: Story) -> None:
    """Its line; of a call that asked for several texts at once, one for each."""
    if not log.isEnabledFor(logging.INFO):
        return
    failure = failure_of(story)
    said: dict[str, Any] = {"route": story.call.route, "status": story.call.status} if story.call else {}
    said |= {"error": failure.kind} if failure else {}
    said |= {"trace_id": story.trace_id}
    level = logging.WARNING if failure and failure.kind == "engine_error" else logging.INFO
    if not story.courses:
        client_id = story.call.header("x-request-id") if story.call else ""
        what = failure.sentence if failure else "No text was asked for."
        log.log(level, "A request was refused. %s", what, extra=fields(request_id=client_id, **said))
    for course in story.courses:
        ended = "was served" if not course.failed else "was not served"
        log.log(level, "A request %s.", ended, extra=fields(**of_course(course), **said))


def of_course(course: Course) -> dict[str, Any]:
    """Return a sequence's log fields; seconds are emulated."""
    flight, request = course.flight, course.flight.request
    core: Any = flight.core_request
    started_s = flight.started_s
    return {
        "request_id": core.external_req_id or request.id,
        "device": flight.device,
        "topic": request.topic,
        "slo_class": flight.slo,
        "slo_met": course.met if min(request.ttft_s, request.tpot_s) < NEVER else None,
        "prompt_tokens": request.prompt_tokens,
        "output_tokens": len(flight.tokens),
        "finish_reason": flight.finish,
        "queue_s": None if started_s is None else round(started_s - request.arrival_s, 6),
        "ttft_s": round(flight.ttft_s, 6) if flight.tokens else None,
        "tpot_s": round(flight.tpot_s, 6) if len(flight.tokens) > 1 else None,
        "e2e_s": round(course.over_s - request.arrival_s, 6),
        "energy_j": round(course.share_j, 6),
        "moves": sum(what == "moved" for _, what, _ in course.events) or None,
    }
