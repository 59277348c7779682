"""Span attributes: OpenTelemetry's for generative AI, vLLM's own, and `foreserve...`. Seconds are emulated."""

from typing import Any

from serving.call import Call
from serving.telemetry.metrics.service import missed_by
from serving.telemetry.tracing.story import Course, Story, Stretch
from serving.types import NEVER, Request

PROVIDER = "foreserve"
Value = str | bool | int | float | list[str]


def of_operation(operation: str, model: str, speed: float) -> dict[str, Value]:
    """Return the attributes that every request has."""
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.request.model": model,
        "foreserve.speed": speed,
    }


def of_call(call: Call | None) -> dict[str, Value]:
    """Return the attributes of a call: its protocol, route and status."""
    if call is None:
        return {}
    service, _, method = call.route.strip("/").partition("/")
    said: dict[str, Value] = {}
    if "." in service:
        said = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
    elif call.route:
        said = {"url.path": call.route}
        if call.status:
            said["http.response.status_code"] = int(call.status)
    return said


def of_request(story: Story) -> dict[str, Value]:
    """Return the attributes of what a request asked for."""
    core: Any = story.courses[0].flight.core_request
    request, params = story.courses[0].flight.request, core.sampling_params
    said: dict[str, Value] = {
        "gen_ai.request.id": core.external_req_id or request.id,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.temperature": float(params.temperature),
        "gen_ai.request.top_p": float(params.top_p),
        "gen_ai.request.n": len(story.courses) // len(_prompts(story)),
        "foreserve.topic": request.topic,
        "foreserve.priority": request.priority,
        "foreserve.slo.class": story.courses[0].flight.slo,
        **_targets(request),
    }
    return {name: value for name, value in said.items() if value != ""}


def _targets(request: Request) -> dict[str, Value]:
    targets = {"foreserve.slo.ttft_s": request.ttft_s, "foreserve.slo.tpot_s": request.tpot_s}
    return {name: target for name, target in targets.items() if target != NEVER}


def _prompts(story: Story) -> dict[str, int]:
    """Return the tokens of each prompt of a call; several texts may share one prompt."""
    flights: list[Any] = [course.flight for course in story.courses]
    return {str(flight.core_request.external_req_id): flight.request.prompt_tokens for flight in flights}


def of_response(story: Story, model: str) -> dict[str, Value]:
    """Return the attributes of a request's response."""
    courses = story.courses
    made = sum(len(course.flight.tokens) for course in courses)
    asked = sum(_prompts(story).values())
    said: dict[str, Value] = {
        "gen_ai.response.model": model,
        "gen_ai.response.finish_reasons": [course.flight.finish for course in courses],
        "gen_ai.usage.input_tokens": asked,
        "gen_ai.usage.output_tokens": made,
        "gen_ai.usage.prompt_tokens": asked,
        "gen_ai.usage.completion_tokens": made,
        "foreserve.energy.even_share_j": sum(course.share_j for course in courses),
        "foreserve.overdue_tokens": sum(course.overdue for course in courses),
    }
    if None not in (met := [course.met for course in courses]):
        said["foreserve.slo.met"] = all(met)
        said["foreserve.slo.missed"] = sorted({target for course in courses for target in missed_by(course.flight)})
    first = [course.flight.ttft_s for course in courses if course.flight.first_s is not None]
    if first:
        arrival_s = courses[0].flight.request.arrival_s
        said["gen_ai.latency.time_to_first_token"] = said["gen_ai.response.time_to_first_chunk"] = min(first)
        said["gen_ai.latency.e2e"] = max(course.flight.last_s for course in courses) - arrival_s
    return said


def of_phases(course: Course) -> dict[str, Value]:
    """Return the duration of each phase of a request."""
    flight = course.flight
    if flight.first_s is None:
        return {}
    arrival_s = flight.request.arrival_s
    started_s = arrival_s if flight.started_s is None else flight.started_s
    said: dict[str, Value] = {
        "gen_ai.latency.time_in_queue": started_s - arrival_s,
        "gen_ai.latency.time_in_model_prefill": flight.first_s - started_s,
        "gen_ai.latency.time_in_model_decode": flight.last_s - flight.first_s,
        "gen_ai.latency.time_in_model_inference": flight.last_s - started_s,
    }
    if len(flight.tokens) > 1:
        said["foreserve.tpot_s"] = flight.tpot_s
    return said


def of_steps(stretch: Stretch) -> dict[str, Value]:
    """Return the totals of a stretch of steps."""
    said: dict[str, Value] = {
        "foreserve.steps": stretch.steps,
        "foreserve.tokens": stretch.tokens,
        "foreserve.batch.mean": stretch.batch / max(1, stretch.steps),
        "foreserve.energy.even_share_j": stretch.share_j,
    }
    if stretch.drafted:
        said["foreserve.drafted_tokens"] = stretch.drafted
        # Each step brings one token that was not drafted. With tokens that came late, not all are known to be here.
        if not stretch.underruns:
            said["foreserve.accepted_tokens"] = stretch.tokens - stretch.steps
    if stretch.folded:
        said["foreserve.stretches"] = 1 + stretch.folded
    return said
