"""A log line for each request: one that was served, failed, was broken off, or turned away."""

import logging
from typing import Any

from serving.process.logs import fields
from serving.telemetry.tracing.call_trace import CallTrace, SequenceTrace
from serving.telemetry.tracing.failures import failure_of
from serving.types import NEVER

log = logging.getLogger("foreserve.requests")


def log_request(call_trace: CallTrace) -> None:
    """Its line; of a call that asked for several texts at once, one for each."""
    if not log.isEnabledFor(logging.INFO):
        return
    failure = failure_of(call_trace)
    said: dict[str, Any] = {"route": call_trace.call.route, "status": call_trace.call.status} if call_trace.call else {}
    said |= {"error": failure.kind} if failure else {}
    said |= {"trace_id": call_trace.trace_id}
    level = logging.WARNING if failure and failure.kind == "engine_error" else logging.INFO
    if not call_trace.sequences:
        client_id = call_trace.call.header("x-request-id") if call_trace.call else ""
        what = failure.sentence if failure else "No text was asked for."
        log.log(level, "A request was refused. %s", what, extra=fields(request_id=client_id, **said))
    for sequence in call_trace.sequences:
        ended = "was served" if not sequence.failed else "was not served"
        log.log(level, "A request %s.", ended, extra=fields(**of_sequence(sequence), **said))


def of_sequence(sequence: SequenceTrace) -> dict[str, Any]:
    """Return a sequence's log fields; seconds are emulated."""
    flight, request = sequence.flight, sequence.flight.request
    core: Any = flight.core_request
    started_s = flight.started_s
    return {
        "request_id": core.external_req_id or request.id,
        "device": flight.device,
        "topic": request.topic,
        "slo_class": flight.slo,
        "slo_met": sequence.met if min(request.ttft_s, request.tpot_s) < NEVER else None,
        "prompt_tokens": request.prompt_tokens,
        "output_tokens": len(flight.tokens),
        "finish_reason": flight.finish,
        "queue_s": None if started_s is None else round(started_s - request.arrival_s, 6),
        "ttft_s": round(flight.ttft_s, 6) if flight.tokens else None,
        "tpot_s": round(flight.tpot_s, 6) if len(flight.tokens) > 1 else None,
        "e2e_s": round(sequence.over_s - request.arrival_s, 6),
        "energy_j": round(sequence.share_j, 6),
        "moves": sum(what == "moved" for _, what, _ in sequence.events) or None,
    }
