"""Devices in virtual time: the same scheduler, pricer and loop as in a server, without clients, actors or text.

Requests have as many tokens as they may have. Whoever gives them to devices (`simulator`) does so in the order
of their arrival, each at the instant at which the devices have come to it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from serving.device.engine import Engine, ExternalTier
from serving.device.pending_steps import PendingSteps
from serving.device.pricing import Pricer
from serving.device.token_counter import TokenCounter
from serving.scheduler.config import Limits, SchedulerRules
from serving.scheduler.scheduler import Scheduler
from serving.types import NEVER, Chunk, Release, Request, StepRecord

# What happens at one instant happens in this order: steps end, what is news to a device arrives, it plans.
ENDS, ARRIVES, PLANS = range(3)
IDLE = (NEVER, PLANS)
NOWHERE = -1
"""The device of a request that was turned away."""

Timeline = list[tuple[dict[str, int], list[float]]]
"""What a device released, step by step or in steps made at once: tokens by request, and the instants: one for all of a
request's tokens, or one for each."""


@dataclass(slots=True)
class Outcome:
    """What became of a request: instants in emulated seconds. Its tokens are in the device's `timeline`, where that is
    kept: it has entries from `begins` to `ends`; those that it had on a device that was lost came at `before_s`. One
    that was turned away has a reason why, `refused`, and no instants."""

    request: Request
    device: int
    timeline: "Timeline | None"
    started_s: float = NEVER
    first_s: float = NEVER
    last_s: float = NEVER
    tokens: int = 0
    begins: int = 0
    ends: int = 0
    before_s: tuple[float, ...] = ()
    refused: str = ""

    @property
    def tokens_s(self) -> list[float]:
        """The instant of each token, where they are kept: if nobody listens instead."""
        assert self.timeline is not None, "a listener hears of requests and steps, not of tokens"
        instants = list(self.before_s)
        for given, ends_s in self.timeline[self.begins : self.ends]:
            if count := given.get(self.request.id):
                instants += ends_s if len(ends_s) > 1 else ends_s * count
        return instants

    @property
    def ttft_s(self) -> float:
        return self.first_s - self.request.arrival_s

    @property
    def tpot_s(self) -> float:
        """Mean time from one token to the next; 0 for a single one, endless if there is none."""
        if self.refused:
            return NEVER
        return (self.last_s - self.first_s) / max(1, self.tokens - 1)

    @property
    def good(self) -> bool:
        """Tell whether it was served as its SLO class promises."""
        return not self.refused and self.ttft_s <= self.request.ttft_s and self.tpot_s <= self.request.tpot_s


class Listener:
    """Hears what comes of a run as it comes, so that none of it need be kept: steps in a device's order, requests in
    the order of their ends on it. Devices take turns; theirs may come a little before what another did earlier.
    Does nothing about it; made to be extended."""

    def stepped(self, record: StepRecord) -> None:
        """A device made a step, or some at once."""

    def ended(self, outcome: Outcome) -> None:
        """A request has all its tokens, or was turned away."""

    def lost(self, device: int, at_s: float) -> None:
        """A device is gone."""

    def back(self, device: int, at_s: float) -> None:
        """A device that was lost is there again."""


class VirtualNode:
    """A device with its scheduler."""

    def __init__(  # noqa: PLR0913  # a device is made of these
        self,
        index: int,
        pricer: Pricer,
        tier: ExternalTier,
        limits: Limits,
        rules: SchedulerRules,
        leaps: bool = True,
        listener: Listener | None = None,
        on_release: Callable[[Release], None] = lambda release: None,
        on_end: Callable[[float, Request], None] = lambda at_s, request: None,
    ) -> None:
        """One that `leaps` makes equal steps at once, with the same instants, and their figures in one record. Without
        a `listener` all steps are kept as `records`, and the instants of all tokens. Whoever is responsible for several
        devices hears of each release, and of each request that ends, and when."""
        self._on_end, self._on_release = on_end, on_release
        self.index = index
        # Of those that have not ended.
        self.outcomes: dict[str, Outcome] = {}
        self.records: list[StepRecord] = []
        self._listener = listener
        self._timeline: Timeline | None = None if listener else []
        self._left = 0
        self.scheduler = Scheduler(limits, rules)
        self._tokens = TokenCounter()
        self.engine = Engine(
            device=index,
            planner=self.scheduler,
            pricer=pricer,
            tier=tier,
            tokens=self._tokens,
            sink=self._note,
        )
        self._leaps = leaps
        self._pending: PendingSteps | None = None
        # What it does next, and when.
        self.due = IDLE

    def submit(self, request: Request) -> Outcome:
        """A request arrives at this device; what becomes of it is told in what this returns."""
        outcome = Outcome(request, self.index, self._timeline)
        self._take(request, outcome, request.arrival_s)
        return outcome

    def resume(self, outcome: Outcome, released: int, at_s: float) -> Request:
        """A request that was begun on a device that is lost goes on here, with so many tokens that it has had; as this
        device's scheduler takes it."""
        outcome.before_s = tuple(outcome.tokens_s) if self._timeline is not None else ()
        outcome.device, outcome.timeline = self.index, self._timeline
        resumed = msgspec.structs.replace(outcome.request, released=released, kv_lost=True)
        self._take(resumed, outcome, at_s)
        return resumed

    def lose(self, at_s: float) -> list[tuple[Outcome, int]]:
        """This device is gone, with all that it held: the requests that it had, with how many tokens each has had."""
        if self._pending is not None and self.due[1] == ENDS:
            self._pending.lose(at_s)
        self._pending, self.due = None, IDLE
        self.engine.rest()
        released = self.scheduler.give_up(self.engine.done())
        for outcome in self.outcomes.values():
            outcome.ends = len(self._timeline or ())
        return [(outcome, released[id]) for id, outcome in self.outcomes.items()]

    def begin_again(self, gone: "VirtualNode", at_s: float) -> None:
        """Stand, from an instant on, for a device that was lost; what that one did is told here."""
        self.engine.at_s = at_s
        self.records = gone.records

    def _take(self, request: Request, outcome: Outcome, at_s: float) -> None:
        self.outcomes[request.id] = outcome
        outcome.begins = outcome.ends = len(self._timeline or ())
        self._left += 1
        self.scheduler.submit(request, in_time=True)
        # As long as nobody leaves a full batch it stays as it is, whoever comes.
        if self._pending is None or not self.scheduler.full:
            self._change(at_s)

    def degrade(self, at_s: float, pricer: Pricer, limits: Limits) -> None:
        """Be another device from an instant on: what is left of the step at hand is made at that one's pace."""
        self.engine.pricer = pricer
        self.scheduler.limit(limits)
        if self._pending is not None and self.due[1] == ENDS:
            self._pending.change(at_s)
        self._change(at_s)

    def stall(self, at_s: float, until_s: float) -> None:
        """Stand still from the end of the step at hand until an instant."""
        self.engine.stalled_until_s = until_s
        self._change(at_s)

    @property
    def busy(self) -> bool:
        """Tell whether there are requests that have not ended."""
        return self._left > 0

    def proceed(self) -> None:
        """Do what is due."""
        due_s, what = self.due
        if what == ENDS:
            self._make()
        else:
            self._begin(due_s)

    def run(self, until_s: float) -> None:
        """Do all that is due before requests that arrive at an instant; or, without one, all that there is to do."""
        while self.due < (until_s, ARRIVES):
            self.proceed()

    def _make(self) -> None:
        assert self._pending is not None
        self._pending.make()
        self.due = self.engine.at_s, PLANS
        if not self._left:
            self.engine.rest()
            self._pending, self.due = None, IDLE

    def _begin(self, now_s: float) -> None:
        """Go on with the plan, or make another."""
        if self._pending is None or not self._pending.go_on():
            self._pending = None
            self._plan(now_s)
        if self._pending is not None:
            self.due = self._pending.end_s, ENDS

    def _plan(self, now_s: float) -> None:
        engine = self.engine
        if engine.stalled_until_s > engine.at_s:
            # What arrives by then is in the next plan.
            engine.rest()
            engine.at_s = engine.stalled_until_s
            self.due = engine.at_s, PLANS
            return
        batch = engine.plan(now_s)
        self.due = batch.until_s, PLANS
        if batch.ids:
            self._tokens.begin(batch)
            self._pending = PendingSteps(engine, batch, self._leaps)

    def _change(self, at_s: float) -> None:
        """Plan anew from an instant on, or once the step then under way has ended."""
        if self._pending is not None and self.due[1] == ENDS:
            self._pending.cut(at_s)
            self.due = self._pending.end_s, ENDS
        elif self._left:
            self._pending, self.due = None, (max(at_s, self.engine.at_s), PLANS)

    def _note(self, release: Release) -> None:
        for id in release.started:
            self.outcomes[id].started_s = min(self.outcomes[id].started_s, release.start_s)
        ends_s = release.ends_s or [release.at_s]
        if self._timeline is not None:
            self._timeline.append((self._tokens.given, ends_s))
        for chunk in release.chunks:
            self._note_edge(chunk, ends_s)
        self._on_release(release)
        if release.record is not None:
            (self._listener.stepped if self._listener else self.records.append)(release.record)

    def _note_edge(self, chunk: Chunk, ends_s: list[float]) -> None:
        """The first or the last token of a request."""
        outcome, entries = self.outcomes[chunk.request_id], len(self._timeline or ())
        if not outcome.tokens:
            outcome.first_s, outcome.begins = ends_s[0], entries - 1
        outcome.last_s, outcome.ends = ends_s[-1], entries
        outcome.tokens = chunk.first + len(chunk.tokens)
        if chunk.finish is not None:
            self._left -= 1
            del self.outcomes[chunk.request_id]
            if self._listener:
                self._listener.ended(outcome)
            self._on_end(outcome.last_s, outcome.request)
