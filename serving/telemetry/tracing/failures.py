"""Failures of calls: a word for programs to count by, and a sentence."""

from typing import NamedTuple

from serving.telemetry.tracing.call_trace import CallTrace


class Failure(NamedTuple):
    """A short name, and a sentence."""

    kind: str
    sentence: str


def failure_of(call_trace: CallTrace) -> Failure | None:
    """Return a call's failure, or None."""
    call, finishes = call_trace.call, {sequence.flight.finish for sequence in call_trace.sequences if sequence.failed}
    if call is not None and call.refusal is not None:
        return Failure(getattr(call.refusal, "reason", "refused"), str(call.refusal))
    if "error" in finishes:
        return Failure("engine_error", "The token source could not make this text.")
    if finishes:
        return Failure("cancelled", "The client went away, or was sent away, before the text was complete.")
    if call is not None and call.status[:1] > "3":
        return Failure(call.status, f"The call was answered with {call.status}.")
    return None
