"""Span attributes: OpenTelemetry's for generative AI, vLLM's own, and `foreserve...`. Seconds are emulated."""

from typing import Any

from serving.call import Call
from serving.telemetry.metrics.service import missed_by
from serving.telemetry.tracing.call_trace import CallTrace, SequenceTrace, StepSpan
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


def of_request(call_trace: CallTrace) -> dict[str, Value]:
    """Return the attributes of what a request asked for."""
    core: Any = call_trace.sequences[0].flight.core_request
    request, params = call_trace.sequences[0].flight.request, core.sampling_params
    said: dict[str, Value] = {
        "gen_ai.request.id": core.external_req_id or request.id,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.temperature": float(params.temperature),
        "gen_ai.request.top_p": float(params.top_p),
        "gen_ai.request.n": len(call_trace.sequences) // len(_prompts(call_trace)),
        "foreserve.topic": request.topic,
        "foreserve.priority": request.priority,
        "foreserve.slo.class": call_trace.sequences[0].flight.slo,
        **_targets(request),
    }
    return {name: value for name, value in said.items() if value != ""}


def _targets(request: Request) -> dict[str, Value]:
    targets = {"foreserve.slo.ttft_s": request.ttft_s, "foreserve.slo.tpot_s": request.tpot_s}
    return {name: target for name, target in targets.items() if target != NEVER}


def _prompts(call_trace: CallTrace) -> dict[str, int]:
    """Return the tokens of each prompt of a call; several texts may share one prompt."""
    flights: list[Any] = [sequence.flight for sequence in call_trace.sequences]
    return {str(flight.core_request.external_req_id): flight.request.prompt_tokens for flight in flights}


def of_response(call_trace: CallTrace, model: str) -> dict[str, Value]:
    """Return the attributes of a request's response."""
    sequences = call_trace.sequences
    made = sum(len(sequence.flight.tokens) for sequence in sequences)
    asked = sum(_prompts(call_trace).values())
    said: dict[str, Value] = {
        "gen_ai.response.model": model,
        "gen_ai.response.finish_reasons": [sequence.flight.finish for sequence in sequences],
        "gen_ai.usage.input_tokens": asked,
        "gen_ai.usage.output_tokens": made,
        "gen_ai.usage.prompt_tokens": asked,
        "gen_ai.usage.completion_tokens": made,
        "foreserve.energy.even_share_j": sum(sequence.share_j for sequence in sequences),
        "foreserve.overdue_tokens": sum(sequence.overdue for sequence in sequences),
    }
    if None not in (met := [sequence.met for sequence in sequences]):
        said["foreserve.slo.met"] = all(met)
        said["foreserve.slo.missed"] = sorted(
            {target for sequence in sequences for target in missed_by(sequence.flight)}
        )
    first = [sequence.flight.ttft_s for sequence in sequences if sequence.flight.first_s is not None]
    if first:
        arrival_s = sequences[0].flight.request.arrival_s
        said["gen_ai.latency.time_to_first_token"] = said["gen_ai.response.time_to_first_chunk"] = min(first)
        said["gen_ai.latency.e2e"] = max(sequence.flight.last_s for sequence in sequences) - arrival_s
    return said


def of_phases(sequence: SequenceTrace) -> dict[str, Value]:
    """Return the duration of each phase of a request."""
    flight = sequence.flight
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


def of_steps(step_span: StepSpan) -> dict[str, Value]:
    """Return the totals of a span of steps."""
    said: dict[str, Value] = {
        "foreserve.steps": step_span.steps,
        "foreserve.tokens": step_span.tokens,
        "foreserve.batch.mean": step_span.batch / max(1, step_span.steps),
        "foreserve.energy.even_share_j": step_span.share_j,
    }
    if step_span.drafted:
        said["foreserve.drafted_tokens"] = step_span.drafted
        # With tokens that came late, not all are known to be here.
        if not step_span.underruns:
            said["foreserve.accepted_tokens"] = step_span.accepted
    if step_span.folded:
        said["foreserve.stretches"] = 1 + step_span.folded
    return said
