"""Call traces: puts each together from what is heard at the edge, and hands it on once it is complete."""

from collections import Counter
from collections.abc import Callable, Sequence

from serving.call import Call
from serving.clock import WallClock
from serving.cluster.observer import EdgeObserver
from serving.flight import Flight
from serving.telemetry.tracing.call_trace import CallTrace, SequenceTrace
from serving.types import Chunk, Release

Tell = Callable[[CallTrace], None]


class CallTraces(EdgeObserver):
    """`tell` hears of each call that asked for text, and of requests without a call, when they are over."""

    def __init__(self, clock: WallClock, tell: Sequence[Tell]) -> None:
        self._clock = clock
        self._tell = tell
        self._traces: dict[int, CallTrace] = {}
        self._sequences: dict[str, tuple[SequenceTrace, CallTrace]] = {}
        # By device, the requests that it has begun.
        self._inside: dict[int, dict[str, SequenceTrace]] = {}

    def on_begin(self, flight: Flight) -> None:
        call_trace, sequence = self._trace_of(flight.call), SequenceTrace(flight)
        call_trace.sequences.append(sequence)
        self._sequences[flight.request.id] = sequence, call_trace

    def on_release(self, release: Release, news: list[tuple[Flight, Chunk]]) -> None:
        device, record = release.device, release.record
        got = Counter(flight.request.id for flight, _ in news)
        inside = self._inside.setdefault(device, {})
        for id in release.started:
            if found := self._sequences.get(id):
                found[0].computing = True
                inside[id] = found[0]
        if record is None:
            for id, tokens in got.items():
                if found := self._sequences.get(id):
                    found[0].late(tokens)
            return
        for id, sequence in inside.items():
            tokens = got.get(id, 0)
            if tokens or record.underruns or sequence.computing:
                sequence.step(record, tokens)

    def on_move(self, flight: Flight) -> None:
        if found := self._sequences.get(flight.request.id):
            self._leave(flight.request.id)
            found[0].note(self._clock.now(), "moved", **{"foreserve.device": flight.device})

    def on_restart(self, actor: str) -> None:
        for sequence, _ in self._sequences.values():
            if actor in ("token source", f"device {sequence.flight.device}"):
                sequence.note(self._clock.now(), "restarted", **{"foreserve.actor": actor})

    def on_fault(self, device: int, kind: str, begins: bool) -> None:
        for sequence, _ in self._sequences.values():
            if sequence.flight.device == device:
                sequence.note(
                    self._clock.now(), "fault begins" if begins else "fault ends", **{"foreserve.fault": kind}
                )

    def on_finish(self, flight: Flight) -> None:
        if found := self._sequences.pop(flight.request.id, None):
            self._leave(flight.request.id)
            sequence, call_trace = found
            sequence.ended_s = flight.last_s if not sequence.failed else self._clock.now()
            if flight.call is None or flight.call.answered:
                call_trace.ended_s = sequence.ended_s
            self._end(call_trace)

    def on_answer(self, call: Call) -> None:
        if id(call) in self._traces or call.refusal is not None or call.failed:
            call_trace = self._trace_of(call)
            call_trace.ended_s = self._clock.now()
            self._end(call_trace)

    def _trace_of(self, call: Call | None) -> CallTrace:
        return CallTrace(None) if call is None else self._traces.setdefault(id(call), CallTrace(call))

    def _leave(self, id: str) -> None:
        for sequences in self._inside.values():
            sequences.pop(id, None)

    def _end(self, call_trace: CallTrace) -> None:
        if call_trace.complete:
            self._traces.pop(id(call_trace.call), None)
            for tell in self._tell:
                tell(call_trace)
