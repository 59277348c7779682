"""Call trace: a call and its requests, step by step, as the edge hears of them.

A step names no requests. One that was on time brought each decoding sequence of its batch a token, so those that got
one were in it; of one that had underruns, all sequences that its device had begun are taken to have been. The prompt of
a request is computed from the step that first names it until its first token.
"""

from dataclasses import dataclass, field

from serving.call import Call
from serving.flight import Flight
from serving.telemetry.metrics.service import missed_by
from serving.types import StepRecord

# More spans of steps than these are folded into the last one.
MAX_STEP_SPANS = 32
# Events of a request that are kept.
MAX_EVENTS = 32
# Steps that follow one another begin where the last one ended, but for what adding up floats loses.
SAME_S = 1e-6

PREFILL, SEVERAL = "prefill", "several"


@dataclass(slots=True)
class StepSpan:
    """Steps of a request in a row, all of one `kind`: `prefill`, `ar`, `sd`, or `several` kinds. Instants are emulated.

    `tokens` came out of them for this request; `drafted` were drafted for it, and `accepted` of these. `batch` is the
    sum of the batches, and `share_j` of the joules, where those of each step are split evenly among its sequences.
    `folded`: spans that this one stands for, beside itself.
    """

    kind: str
    start_s: float
    end_s: float
    steps: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    underruns: int = 0
    batch: int = 0
    share_j: float = 0.0
    folded: int = 0

    def add(self, record: StepRecord, tokens: int, decodes: bool) -> None:
        """Add a step, which gave the request `tokens` tokens; nothing is drafted for one that doesn't decode."""
        self.end_s = record.start_s + record.latency_s
        self.steps += 1
        self.tokens += tokens
        if record.drafts and decodes:
            self.drafted += record.drafted // record.drafts
            # Each step brings one token that was not drafted.
            self.accepted += max(0, tokens - 1)
        self.underruns += record.underruns
        self.batch += record.batch
        self.share_j += sum(record.energy_j) / record.batch


@dataclass(slots=True)
class SequenceTrace:
    """The trace of one sequence, of which a call may have several."""

    flight: Flight
    prefill: StepSpan | None = None
    step_spans: list[StepSpan] = field(default_factory=list)
    events: list[tuple[float, str, dict[str, str | int | bool]]] = field(default_factory=list)
    overdue: int = 0
    ended_s: float | None = None
    computing: bool = False
    """Tell whether it is its prompt (again) that is computed, as far as we know."""

    def step(self, record: StepRecord, tokens: int) -> None:
        """Record a step that the sequence took part in."""
        if self.flight.first_s is None:
            if self.prefill is None:
                self.prefill = StepSpan(PREFILL, record.start_s, record.start_s)
            self.prefill.add(record, tokens, decodes=False)
        else:
            kind, decodes = PREFILL if self.computing else record.mode, not self.computing
            self._step_span(kind, record.start_s).add(record, tokens, decodes)
        if tokens:
            self.computing = False

    def late(self, tokens: int) -> None:
        """Tokens came after their step."""
        self.overdue += tokens
        self.computing = False
        if self.step_spans:
            self.step_spans[-1].tokens += tokens

    def note(self, at_s: float, what: str, **more: str | int | bool) -> None:
        """Record an event of the sequence."""
        if len(self.events) < MAX_EVENTS:
            self.events.append((at_s, what, more))

    @property
    def met(self) -> bool | None:
        """Tell whether it was served as it was promised, as metrics count it; None if its client did not wait."""
        flight = self.flight
        return None if flight.finish in ("", "abort") else not missed_by(flight) and flight.finish != "error"

    @property
    def failed(self) -> bool:
        """Tell whether it ended before it was complete: its client went, or it could not be served."""
        return self.flight.finish in ("", "abort", "error")

    @property
    def over_s(self) -> float:
        """The instant at which it ended, as it has."""
        assert self.ended_s is not None
        return self.ended_s

    @property
    def share_j(self) -> float:
        """Joules: of each step that it was in, an even share."""
        return sum(each.share_j for each in (self.prefill, *self.step_spans) if each is not None)

    def _step_span(self, kind: str, start_s: float) -> StepSpan:
        last = self.step_spans[-1] if self.step_spans else None
        if last is not None:
            if last.kind == kind and abs(start_s - last.end_s) < SAME_S:
                return last
            if len(self.step_spans) == MAX_STEP_SPANS:
                last.kind = SEVERAL
                last.folded += 1
                return last
        self.step_spans.append(StepSpan(kind, start_s, start_s))
        return self.step_spans[-1]


@dataclass(slots=True)
class CallTrace:
    """A call with the traces of its sequences; `call` is None for a request that came by a way that does not stamp.

    `ended_s` is the emulated instant at which its answer was complete. `trace_id` is for log lines, if it is traced.
    """

    call: Call | None
    sequences: list[SequenceTrace] = field(default_factory=list)
    ended_s: float | None = None
    trace_id: str = ""

    @property
    def complete(self) -> bool:
        """Tell whether nothing more is to come."""
        return self.ended_s is not None and all(sequence.ended_s is not None for sequence in self.sequences)

    @property
    def over_s(self) -> float:
        """The instant at which the answer was complete."""
        assert self.ended_s is not None
        return self.ended_s
