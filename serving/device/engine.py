"""An emulated device: plans, prices and makes its steps in emulated time, without actors or a clock of its own.

Two drivers run it: `serving.device.live_driver` by the wall clock, `serving.simulation.virtual_driver` by due instants.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple, Protocol

import msgspec

from device_model.step import StepCost
from serving.device.pricing import Pricer, StepPrice
from serving.device.token_buffer import TokenRows
from serving.types import NEVER, Batch, Chunk, Done, Release, StepRecord


class Planner(Protocol):
    """Composes batches: `serving.scheduler.scheduler.Scheduler`, or an actor that owns one."""

    def plan(self, at_s: float, now_s: float, last_s: float, done: Done) -> Batch: ...


class Buffers(Protocol):
    """Holds the tokens of requests: `token_buffer.TokenBuffer`, or `token_counter.TokenCounter` in virtual time."""

    def push(self, chunks: list[Chunk], source: int = 0) -> list[Chunk]: ...

    def take(self, wanted: dict[str, int]) -> tuple[list[Chunk], int]: ...

    def owed(self) -> int: ...


class ExternalTier(Protocol):
    """Grants bandwidth of the external memory: `serving.device.slow_tier.SlowTier`, or an actor that owns one."""

    def lease(self, device: int, traffic_bytes: float, elapsed_s: float) -> float: ...

    def granted_bytes_per_s(self, device: int) -> float: ...

    def release(self, device: int) -> None: ...


class PackedRelease(NamedTuple):
    """A coming release, the rows whose next one its tokens are, and its `message`, but for how late it is."""

    release: Release
    rows: TokenRows
    message: bytes


class Packer(Protocol):
    """Makes coming releases ready to be sent, and sends them in their time."""

    def pack(self, request_ids: Sequence[str], releases: Sequence[Release]) -> list[PackedRelease]: ...

    def send(self, packed: PackedRelease, late_real_s: float) -> bool: ...


@dataclass(slots=True)
class Engine:
    """One emulated device. `sink` receives its releases; `PendingSteps` makes the steps of a plan. With a `packer`
    those of coming steps that give each sequence one token are made ready ahead.

    `at_s` is the device's emulated time: the sum of modelled latencies, waits for arrivals, and stalls. A lease of the
    tier's bandwidth lasts `lease_s`. The device stands still from the end of the current step until `stalled_until_s`.
    """

    device: int
    planner: Planner
    pricer: Pricer
    tier: ExternalTier
    tokens: Buffers
    sink: Callable[[Release], None]
    packer: Packer | None = None
    at_s: float = 0.0
    lease_s: float = NEVER
    stalled_until_s: float = 0.0
    _leased_at_s: float | None = None
    _lease_ends_s: float = NEVER
    _last_s: float = -1.0
    _before_s: float = -1.0
    _steps: int = 0
    _accepted: list[int] = field(default_factory=list)
    _traffic: float = 0.0
    # A deque, because a push may add to it from another thread while a plan empties it.
    _finished: deque[str] = field(default_factory=deque)
    # Held from when tokens leave their buffers until their release is with the sink: overdue tokens of a request, which
    # another thread releases, never come after those of a later step.
    _order: threading.Lock = field(default_factory=threading.Lock)

    def push(self, chunks: list[Chunk], now_s: float, source: int = 0) -> bool:
        """Buffer tokens from a source, by its index (any thread may call this), and release overdue ones at once.
        Return whether there were any."""
        with self._order:
            overdue = self.tokens.push(chunks, source)
            if overdue:
                self._finish(overdue)
                self.sink(Release(self.device, now_s, overdue))
        return bool(overdue)

    def plan(self, now_s: float) -> Batch:
        """Compose the batch that begins at `at_s`, from requests that have arrived by `now_s`. Rest if it is empty."""
        batch = self.planner.plan(self.at_s, now_s, self._last_s, self.done())
        if batch.kv_events:
            self.sink(Release(self.device, self.at_s, [], kv_events=batch.kv_events))
        if batch.ids:
            self.at_s = batch.start_s
        else:
            self.rest()
        return batch

    def done(self) -> Done:
        """Return and reset the progress of the last batch."""
        finished = [self._finished.popleft() for _ in range(len(self._finished))]
        done = Done(self._steps, self._accepted, finished, self._before_s)
        self._steps, self._accepted = 0, []
        return done

    def price(self, batch: Batch) -> Iterator[StepPrice]:
        """Yield the prices of the batch's steps, from the first on, under a new bandwidth lease."""
        return self.pricer.price(batch, self._lease())

    def again(self, priced: StepPrice) -> StepCost:
        """Reprice the current step in the device's present condition."""
        return self.pricer.again(priced, self._steps, self.tier.granted_bytes_per_s(self.device))

    def holds_s(self, batch: Batch) -> float:
        """Return the instant from which the batch must be planned anew: its own limit, or the end of the lease."""
        return min(batch.until_s, self._lease_ends_s)

    @property
    def last_step_s(self) -> float:
        """Seconds that the last step took, with what it waited for."""
        return self.at_s - self._last_s

    @property
    def ended(self) -> bool:
        """Tell whether a request has ended since the last plan."""
        return bool(self._finished)

    def stand_still(self) -> bool:
        """Tell whether the device stands still from now on; rest if it does. `resume` ends that."""
        stalled = self.stalled_until_s > self.at_s
        if stalled:
            self.rest()
        return stalled

    def resume(self, now_s: float) -> None:
        """Go on after standing still: from the end of the stall, or from `now_s` if it was ended before its time."""
        self.at_s = max(self.at_s, self.stalled_until_s if self.stalled_until_s > self.at_s else now_s)

    def rest(self) -> None:
        """Release the bandwidth lease while idle."""
        if self._leased_at_s is not None:
            self.tier.release(self.device)
            self._traffic, self._leased_at_s = 0.0, None

    def make(
        self, batch: Batch, priced: StepPrice, record: StepRecord, ends_s: list[float], late_real_s: float = 0.0
    ) -> int:
        """Make the batch's next steps, one for each instant of `ends_s`, at this price in all, and release their
        tokens with the `record`, `late_real_s` late. Return the number of underruns."""
        start_s, steps, self.at_s = self.at_s, len(ends_s), ends_s[-1]
        # What the plan itself has to tell goes with its first steps.
        started, found, preempted = ([], [], []) if self._steps else (batch.started, batch.found, batch.preempted)
        with self._order:
            chunks, underruns = self.tokens.take(_emitted(batch, priced, steps))
            if late_real_s or underruns:
                record = msgspec.structs.replace(record, late_real_s=late_real_s, underruns=underruns)
            told_s = ends_s if steps > 1 else []
            self.sink(
                Release(self.device, self.at_s, chunks, started, start_s, told_s, found, preempted, record=record)
            )
        self._finish(chunks)
        self._before_s, self._last_s = (self._last_s, start_s, *ends_s)[steps - 1 : steps + 1]
        self._note_made(priced, steps)
        return underruns

    def pack(self, batch: Batch, records: Sequence[StepRecord], ends_s: Sequence[float]) -> list[PackedRelease]:
        """Make the releases of coming steps ready, which give each sequence one token. Return those of the first steps,
        as far as their tokens are there."""
        if self.packer is None:
            return []
        steps = zip(records, ends_s, strict=True)
        releases = [Release(self.device, at_s, [], start_s=record.start_s, record=record) for record, at_s in steps]
        return self.packer.pack(list(_emitting(batch)), releases)

    def make_packed(self, packed: PackedRelease, priced: StepPrice, late_real_s: float) -> bool:
        """Make the batch's next step by a release that is ready. Return False if it does not hold any more."""
        if self.packer is None or packed.release.start_s != self.at_s:
            return False
        with self._order:
            if not self.packer.send(packed, late_real_s):
                return False
        self._before_s, self._last_s, self.at_s = self._last_s, self.at_s, packed.release.at_s
        self._note_made(priced, 1)
        return True

    def _note_made(self, priced: StepPrice, steps: int) -> None:
        self._steps += steps
        self._traffic += priced.cost.traffic.ext_bytes
        if self._accepted:
            self._accepted = [had + more for had, more in zip(self._accepted, priced.accepted, strict=True)]
        else:
            self._accepted = priced.accepted

    def _lease(self) -> float:
        since_s = self.at_s if self._leased_at_s is None else self._leased_at_s
        traffic, self._traffic, self._leased_at_s = self._traffic, 0.0, self.at_s
        self._lease_ends_s = self.at_s + self.lease_s
        return self.tier.lease(self.device, traffic, self.at_s - since_s)

    def _finish(self, chunks: list[Chunk]) -> None:
        self._finished.extend(chunk.request_id for chunk in chunks if chunk.finish is not None)


def _emitted(batch: Batch, priced: StepPrice, steps: int) -> dict[str, int]:
    """Return the tokens that `steps` steps give each sequence that emits any, by request id."""
    if priced.accepted:
        parts = zip(batch.ids, priced.accepted, batch.emits, strict=True)
        return {id: 1 + more for id, more, emits in parts if emits}
    return dict.fromkeys(_emitting(batch), steps)


def _emitting(batch: Batch) -> Iterable[str]:
    return batch.ids if all(batch.emits) else compress(batch.ids, batch.emits)
