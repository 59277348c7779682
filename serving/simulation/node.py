"""A device in virtual time: the same scheduler, pricer and engine as in a server, without clients, actors or text.

Requests have as many tokens as they may have. The caller (`simulator`) submits them in order of arrival, each once the
devices have come to that instant.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from serving.device.engine import Engine, ExternalTier
from serving.device.pending_steps import PendingSteps
from serving.device.pricing import Pricer
from serving.device.token_counter import TokenCounter
from serving.observer import Observer
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
    """The result of one request; instants in emulated seconds.

    Its tokens are entries `begins` to `ends` of the device's `timeline`, if that is kept; `before_s` are the instants
    of those from a device that was lost. A refused request has the reason, `refused`, and no instants.
    """

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
        """The instant of each token. Only where the timeline is kept, that is without a listener."""
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
        """Mean seconds from one token to the next: 0 for a single token, endless if the request was refused."""
        if self.refused:
            return NEVER
        return (self.last_s - self.first_s) / max(1, self.tokens - 1)

    @property
    def good(self) -> bool:
        """Tell whether the request met its SLO class."""
        return not self.refused and self.ttft_s <= self.request.ttft_s and self.tpot_s <= self.request.tpot_s


class Listener(Observer[Outcome]):
    """Observes a run in virtual time, so that nothing of it need be kept. Subclass it; its methods do nothing.

    Devices take turns, so one may report an instant a little before the last one of another.
    """

    def on_lost(self, device: int, at_s: float) -> None:
        """Hear that a device is lost."""

    def on_back(self, device: int, at_s: float) -> None:
        """Hear that a lost device returns."""


class VirtualNode:
    """A device with its scheduler, driven by its own due instants."""

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
        """With `leaps`, make equal steps at once: same instants, one record for all. Without a `listener`, keep all
        steps as `records`, and the instants of all tokens. `on_release` hears of each release, `on_end` of each
        request's end."""
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
        """Queue a request that arrives; return its outcome, which fills up as the run goes on."""
        outcome = Outcome(request, self.index, self._timeline)
        self._take(request, outcome, request.arrival_s)
        return outcome

    def resume(self, outcome: Outcome, released: int, at_s: float) -> Request:
        """Continue here a request begun on a lost device, with `released` tokens; return it as the scheduler takes
        it."""
        outcome.before_s = tuple(outcome.tokens_s) if self._timeline is not None else ()
        outcome.device, outcome.timeline = self.index, self._timeline
        resumed = msgspec.structs.replace(outcome.request, released=released, kv_lost=True)
        self._take(resumed, outcome, at_s)
        return resumed

    def lose(self, at_s: float) -> list[tuple[Outcome, int]]:
        """Lose the device at `at_s`; return its unfinished outcomes, each with its number of released tokens."""
        if self._pending is not None and self.due[1] == ENDS:
            self._pending.lose(at_s)
        self._pending, self.due = None, IDLE
        self.engine.rest()
        released = self.scheduler.give_up(self.engine.done())
        for outcome in self.outcomes.values():
            outcome.ends = len(self._timeline or ())
        return [(outcome, released[id]) for id, outcome in self.outcomes.items()]

    def begin_again(self, gone: "VirtualNode", at_s: float) -> None:
        """Replace the lost device `gone` from `at_s` on, and take over its records."""
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
        """Take another condition's `pricer` and `limits` from `at_s` on; the rest of the current step is repriced."""
        self.engine.pricer = pricer
        self.scheduler.limit(limits)
        if self._pending is not None and self.due[1] == ENDS:
            self._pending.change(at_s)
        self._change(at_s)

    def stall(self, at_s: float, until_s: float) -> None:
        """Stand still from the end of the current step until `until_s`."""
        self.engine.stalled_until_s = until_s
        self._change(at_s)

    @property
    def busy(self) -> bool:
        """Tell whether any request has not ended."""
        return self._left > 0

    def proceed(self) -> None:
        """Do what is due next."""
        due_s, what = self.due
        if what == ENDS:
            self._make()
        else:
            self._begin(due_s)

    def run(self, until_s: float) -> None:
        """Do all that is due before requests that arrive at `until_s`; by default, until nothing is left."""
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
        """Continue the plan, or make another."""
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
        """Plan anew at `at_s`, or once the step then under way has ended."""
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
            (self._listener.on_step if self._listener else self.records.append)(release.record)

    def _note_edge(self, chunk: Chunk, ends_s: list[float]) -> None:
        """Record the first or last token of a request."""
        outcome, entries = self.outcomes[chunk.request_id], len(self._timeline or ())
        if not outcome.tokens:
            outcome.first_s, outcome.begins = ends_s[0], entries - 1
        outcome.last_s, outcome.ends = ends_s[-1], entries
        outcome.tokens = chunk.first + len(chunk.tokens)
        if chunk.finish is not None:
            self._left -= 1
            del self.outcomes[chunk.request_id]
            if self._listener:
                self._listener.on_finish(outcome)
            self._on_end(outcome.last_s, outcome.request)
