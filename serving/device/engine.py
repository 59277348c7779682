"""The emulation loop: plan, cost, wait, release. Written once, against `Clock`, and ignorant of actors."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple, Protocol

from device_model.step import StepCost, StepCosts
from serving.clock import Clock
from serving.device.pricing import Priced, Pricer
from serving.device.step_underway import Underway
from serving.types import NEVER, Batch, Chunk, Done, Release, StepRecord

# A device whose tokens are this far behind waits for them: beyond, what it emulates has no text to go with it, and may
# be the decoding of what has stopped long ago.
MAX_OWED = 64


class Made(NamedTuple):
    """One step, or several at once, which then end at `ends_s`: when it began, how many tokens of each sequence it
    gave, whether it was its batch's `first`, and how late it was released."""

    start_s: float
    emitted: dict[str, int]
    first: bool = True
    late_real_s: float = 0.0
    ends_s: list[float] = []  # noqa: RUF012  # never written to

    @property
    def steps(self) -> int:
        return len(self.ends_s) or 1


class Planner(Protocol):
    """Composes batches: `serving.scheduler.scheduler.Scheduler`, or an actor that owns one."""

    def plan(self, at: float, now: float, last: float, done: Done) -> Batch: ...


class Buffers(Protocol):
    """Has the tokens ready: `token_buffer.Tokens`, or `token_counter.Counted` where nobody reads them."""

    def push(self, chunks: list[Chunk]) -> list[Chunk]: ...

    def take(self, wanted: dict[str, int]) -> tuple[list[Chunk], int]: ...

    def owed(self) -> int: ...


class Tier(Protocol):
    """Grants bandwidth of the external memory: `serving.device.lpddr.Lpddr`, or an actor that owns one."""

    def lease(self, device: int, traffic_bytes: float, elapsed_s: float) -> float: ...

    def rate(self, device: int) -> float: ...

    def release(self, device: int, traffic_bytes: float) -> None: ...


@dataclass(slots=True)
class Engine:
    """One emulated device in time. `sink` takes its releases; `cycle` is to be called for ever.

    `at` is where its emulated time has got to: the sum of modelled latencies, and of waits for arrivals and stalls.
    `lease_s` is for how long of it a lease of the tier holds. In virtual time, where nobody waits for steps one by one,
    who calls has it `plan`, and make the steps when their time has come (`serving.simulation.pending_steps`).
    """

    device: int
    clock: Clock
    planner: Planner
    pricer: Pricer
    tier: Tier
    tokens: Buffers
    sink: Callable[[Release], None]
    at: float = 0.0
    lease_s: float = NEVER
    _leased_at: float | None = None
    _lease_ends_s: float = NEVER
    stalled_until: float = 0.0
    _last: float = -1.0
    _steps: int = 0
    _accepted: list[int] = field(default_factory=list)
    _traffic: float = 0.0
    _news: bool = False
    _changed_s: float | None = None
    # A deque, because a push may add to it from another thread while a plan empties it.
    _finished: deque[str] = field(default_factory=deque)

    def poke(self) -> None:
        """Tell of a change of the batch, from any thread: the next step is planned anew."""
        self._news = True
        self.clock.signal()

    def stall(self, until_s: float) -> None:
        """Stand still from the end of the step at hand until an emulated instant, from any thread. Said once more it
        can be later, or sooner: one that is over ends the stall."""
        self.stalled_until = until_s
        self.poke()

    def change(self) -> None:
        """Go on in another condition, which the pricer and the tier know of already; from any thread. What is left of
        the step at hand is made at the new pace."""
        self._changed_s = self.clock.now()
        self.clock.interrupt()
        self.poke()

    def push(self, chunks: list[Chunk]) -> None:
        """Take in tokens from the source, from any thread; overdue ones leave at once."""
        overdue = self.tokens.push(chunks)
        if overdue:
            self._finish(overdue)
            self.sink(Release(self.device, self.clock.now(), overdue))
            self.clock.signal()

    def cycle(self) -> None:
        """Plan once, and run the steps of that plan until something changes."""
        # Cleared before the question: news that come while it is answered lead to another.
        self._news, self._changed_s = False, None
        self._stand_still()
        batch = self.plan()
        if not batch.ids:
            self.clock.wait(batch.until_s)
            return
        for step, priced in enumerate(self.price(batch)):
            self.step(batch, priced, first=step == 0)
            if self._news or self._finished or self.at >= self.holds_s(batch):
                break

    def plan(self) -> Batch:
        """What comes next, from here on, after what was done."""
        batch = self.planner.plan(self.at, self.clock.now(), self._last, self.done())
        if batch.ids:
            self.at = batch.start_s
        else:
            self.rest()
        return batch

    def done(self) -> Done:
        """What was done of the last batch, to be told once."""
        finished = [self._finished.popleft() for _ in range(len(self._finished))]
        done = Done(self._steps, self._accepted, finished)
        self._steps, self._accepted = 0, []
        return done

    def price(self, batch: Batch) -> Iterator[Priced]:
        """What the steps of a batch that begins here cost, one after the other."""
        return self.pricer.price(batch, self._lease())

    def again(self, priced: Priced) -> StepCost:
        """What the step at hand would cost in the condition that the device has now."""
        return self.pricer.again(priced, self._steps, self.tier.rate(self.device))

    def holds_s(self, batch: Batch) -> float:
        """The instant from which on a batch must be planned anew."""
        return min(batch.until_s, self._lease_ends_s)

    def _lease(self) -> float:
        since = self.at if self._leased_at is None else self._leased_at
        traffic, self._traffic, self._leased_at = self._traffic, 0.0, self.at
        self._lease_ends_s = self.at + self.lease_s
        return self.tier.lease(self.device, traffic, self.at - since)

    @property
    def ended(self) -> bool:
        """Whether a request has ended since the plan."""
        return bool(self._finished)

    def rest(self) -> None:
        """Nothing to do: the tier's other devices may have what this one had."""
        if self._leased_at is not None:
            self.tier.release(self.device, self._traffic)
            self._traffic, self._leased_at = 0.0, None

    def _stand_still(self) -> None:
        """Let a stall pass. A clock's wait may end sooner than it is asked to."""
        if self.stalled_until > self.at:
            self.rest()
            while self.clock.now() < self.stalled_until:
                self.clock.wait(self.stalled_until)
            # If it was ended before its time, it is now.
            self.at = max(self.at, self.stalled_until if self.stalled_until > self.at else self.clock.now())

    def step(self, batch: Batch, priced: Priced, first: bool) -> None:
        """Make a step."""
        underway = Underway(self.at, priced)
        while (late_real_s := self.clock.until(underway.end_s)) < 0:
            at_s, self._changed_s = self._changed_s, None
            if at_s is not None:
                underway.change(at_s, self.again(priced))
        priced = underway.priced
        start, self.at = self.at, underway.end_s
        if priced.accepted:
            parts = zip(batch.ids, priced.accepted, batch.emits, strict=True)
            emitted = {id: 1 + more for id, more, emits in parts if emits}
        else:
            emitted = dict.fromkeys(batch.ids if all(batch.emits) else compress(batch.ids, batch.emits), 1)
        underruns = self._tell(batch, priced, Made(start, emitted, first, late_real_s))
        self._last = start
        # A batch that drafts is planned anew after each step, as only now it is known how far its sequences have got.
        self._accepted = priced.accepted
        if underruns and self.tokens.owed() > MAX_OWED:
            self._stall()

    def leap(self, batch: Batch, priced: Priced, costs: StepCosts, ends_s: list[float]) -> None:
        """Make as many first steps of a batch at once, of those that cost so much, as have ends."""
        start, steps, self.at = self.at, len(ends_s), ends_s[-1]
        self.clock.until(self.at)
        cost = costs.total(steps)._replace(latency_s=self.at - start)
        self._tell(batch, priced._replace(cost=cost), Made(start, dict.fromkeys(batch.ids, steps), ends_s=ends_s))
        self._last = ends_s[-2] if steps > 1 else start

    def _tell(self, batch: Batch, priced: Priced, made: Made) -> int:
        """Release what was made, with its record, at the cost that is priced; how many tokens were not there."""
        cost, steps, first = priced.cost, made.steps, made.first
        chunks, underruns = self.tokens.take(made.emitted)
        record = StepRecord(
            device=self.device,
            mode="sd" if priced.drafts else "ar",
            phase=batch.phase,
            start_s=made.start_s,
            latency_s=cost.latency_s,
            batch=len(batch.ids),
            new_tokens=sum(batch.new_tokens) * steps,
            energy_j=tuple(cost.energy),
            traffic_bytes=tuple(cost.traffic),
            expert_lookups=cost.expert_lookups,
            expert_hits=cost.expert_hits,
            late_real_s=made.late_real_s,
            underruns=underruns,
            waiting=batch.waiting,
            kv_tokens=batch.kv_tokens,
            preemptions=batch.preemptions if first else 0,
            slips=batch.slips if first else 0,
            unrouted=priced.unrouted,
            drafts=priced.drafts,
            drafted=priced.drafts * priced.depth,
            accepted=sum(priced.accepted),
            reason=priced.reason,
            swaps=priced.swaps,
            spilled_tokens=batch.spilled_tokens if first else 0,
            fetched_tokens=batch.fetched_tokens if first else 0,
            queried_tokens=batch.queried_tokens if first else 0,
            cached_tokens=batch.cached_tokens if first else 0,
            draft_s=cost.seconds.draft_s,
            target_s=cost.seconds.target_s - priced.moved_s,
            update_s=cost.seconds.update_s,
            moved_s=priced.moved_s,
            accepted_by=priced.accepted_by,
            steps=steps,
        )
        started = batch.started if first else []
        self.sink(Release(self.device, self.at, chunks, record, started, made.start_s, made.ends_s))
        self._finish(chunks)
        self._steps += steps
        self._traffic += cost.traffic.ext_bytes
        return underruns

    def _stall(self) -> None:
        """Wait for overdue tokens. Arrivals go on meanwhile, so emulated time does too."""
        while self.tokens.owed() > MAX_OWED:
            self.clock.wait(NEVER)
        self.at = max(self.at, self.clock.now())

    def _finish(self, chunks: list[Chunk]) -> None:
        self._finished.extend(chunk.request_id for chunk in chunks if chunk.finish is not None)
