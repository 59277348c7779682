"""Recorder: an observer of a run that keeps one row a request, a timeline, and sums over steps."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from operator import add
from types import MappingProxyType
from typing import Any

from device_model.step import Energy
from serving.refusals import Refusal
from serving.simulation.node import Outcome, VirtualDevice, VirtualObserver
from serving.study.measures.presence import Presence
from serving.study.measures.targets import Targets
from serving.study.measures.token_gaps import TokenGaps
from serving.study.tables import Rows
from serving.study.timeline import COLUMNS, Timeline
from serving.types import Chunk, Release, StepRecord

REQUEST_COLUMNS = {
    "request": "str",
    "device": "int",
    "topic": "str",
    "key": "str",
    "priority": "int",
    "arrival_s": "float",
    "prompt_tokens": "int",
    "output_tokens": "int",
    "queue_s": "float",
    "ttft_s": "float",
    "tpot_s": "float",
    "e2e_s": "float",
    "refused": "str",
    "ttft_ok": "bool",
    "tpot_ok": "bool",
    "judged": "bool",
}
STEP_SUMS = (
    "steps",
    "expert_lookups",
    "expert_hits",
    "hits_beyond_hb",
    "unpublished",
    "drafted",
    "accepted",
    "preemptions",
    "swaps",
    "swap_s",
    "swap_j",
    "queried_tokens",
    "cached_tokens",
)
BIN_COLUMNS = (*COLUMNS, "lost_s")
NO_ENERGY = tuple(0.0 for _ in Energy._fields)


class Recorder(VirtualObserver):
    """The observer of a study's run. Of requests that arrive from `from_s` to `to_s` the targets are judged. Rows name
    an API key by its place, as `key_places` has it."""

    def __init__(
        self, targets: Targets, from_s: float, to_s: float, key_places: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._key_places = key_places
        self._targets, self.from_s, self.to_s = targets, from_s, to_s
        self.presence = Presence()
        self.requests = Rows(REQUEST_COLUMNS)
        self.timeline = Timeline()
        self.sums: Counter[str] = Counter()
        self.energy_j = NO_ENERGY
        # Step by step, not part by part: the last digits stay what they were.
        self.joules = 0.0
        self.mode_s: defaultdict[str, float] = defaultdict(float)
        self.sequence_s = 0.0
        self.mode_changes = 0
        self._mode: dict[int, str] = {}
        self.last_s = 0.0
        self.gaps = TokenGaps(from_s, to_s)
        # Since when who waits for a step does; and when a device changed last.
        self._waits_since_s: dict[str, float] = {}
        self._changed_s = 0.0

    def bins(self) -> list[dict[str, Any]]:
        """Return the bins of the timeline, each with the device seconds until the last token that were lost in it."""
        rows = self.timeline.rows()
        ends_s = [min(row["start_s"] + row["width_s"], self.last_s) for row in rows]
        lost_s = [self.presence.lost_s(row["start_s"], end_s) for row, end_s in zip(rows, ends_s, strict=True)]
        return [row | {"lost_s": each} for row, each in zip(rows, lost_s, strict=True)]

    def on_begin(self, flight: Outcome) -> None:
        """Record since when a request waits."""
        self._waits_since_s[flight.request.id] = flight.request.arrival_s

    def on_move(self, flight: Outcome) -> None:
        """Record that a request of a device that was lost waits now, if it did not."""
        self._waits_since_s.setdefault(flight.request.id, self._changed_s)

    def on_release(self, release: Release, news: list[tuple[Outcome, Chunk]]) -> None:
        """Record who waits no longer, and who does again. A step's record can't tell: whoever comes while a batch is
        full changes nothing about its steps, which may be many."""
        for id in release.started:
            self.timeline.wait(self._waits_since_s.pop(id), release.start_s)
        for id in release.preempted:
            self._waits_since_s[id] = release.start_s

    def on_tokens(self, given: dict[str, int], ends_s: list[float]) -> None:
        """Record how long who got tokens had waited for them."""
        self.gaps.add(given, ends_s)

    def on_finish(self, flight: Outcome) -> None:
        """Record a request that has all its tokens."""
        self.gaps.end(flight.request.id)
        at_s, ttft_limit_s, tpot_limit_s = flight.request.arrival_s, *self._targets.of(flight)
        ttft_s, tpot_s = flight.ttft_s, flight.tpot_s
        self.last_s = max(self.last_s, flight.last_s)
        latencies_s = (flight.started_s - at_s, ttft_s, tpot_s, flight.last_s - at_s)
        self._add(flight, latencies_s, "", (ttft_s <= ttft_limit_s, tpot_s <= tpot_limit_s))

    def on_refusal(self, refusal: Refusal, flight: Outcome | None) -> None:
        """Record a request that was refused."""
        assert flight is not None, "virtual time knows whom it refuses"
        self.gaps.end(flight.request.id)
        self._add(flight, (None,) * 4, str(refusal.reason), (False, False))

    def _add(
        self, flight: Outcome, latencies_s: tuple[float | None, ...], refused: str, kept: tuple[bool, bool]
    ) -> None:
        """Add a request's row: its latencies, the reason if it was refused, and which targets it kept."""
        request = flight.request
        row = (
            *(request.id, flight.device, request.topic, self._key_places.get(flight.key, flight.key)),
            *(request.priority, request.arrival_s),
            *(request.prompt_tokens, flight.tokens, *latencies_s, refused, *kept),
            self.from_s <= request.arrival_s <= self.to_s,
        )
        self.requests.add(row)

    def on_step(self, record: StepRecord) -> None:
        """Record that a device made a step, or some at once."""
        self.timeline.add(record)
        for name in STEP_SUMS:
            self.sums[name] += getattr(record, name)
        self.energy_j = tuple(map(add, self.energy_j, record.energy_j))
        self.joules += sum(record.energy_j)
        self.presence.work(record.device, record.start_s, record.latency_s)
        self.sequence_s += record.batch * record.latency_s
        if record.phase == "decode":
            self.mode_s[record.mode] += record.latency_s
            self.mode_changes += self._mode.get(record.device, record.mode) != record.mode
            self._mode[record.device] = record.mode

    def on_change(self, device: VirtualDevice) -> None:
        """Record that a device is lost, that it is there, perhaps again, or that it is in another condition."""
        self.presence.change(device)
        self._changed_s = device.at_s
