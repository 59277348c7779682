"""A device in virtual time: the same scheduler, pricer and engine as in a server, without clients, actors or text.

Requests have as many tokens as they may have. The caller (`simulator`) submits them in order of arrival, each once the
devices have come to that instant.
"""

from dataclasses import dataclass

import msgspec

from serving.device.device_spec import DeviceLimits, DeviceSpec
from serving.device.engine import Engine, ExternalTier
from serving.device.pricing import Pricer
from serving.device.token_counter import TokenCounter
from serving.observer import Broadcast, Observer
from serving.refusals import Reason
from serving.scheduler.config import Limits, SchedulerRules
from serving.scheduler.scheduler import Scheduler
from serving.simulation.virtual_driver import VirtualDriver
from serving.types import NEVER, Chunk, Release, Request, StepRecord

NOWHERE = -1
"""The device of a request that was turned away."""

Timeline = list[tuple[dict[str, int], list[float]]]
"""What a device released, step by step or in steps made at once: tokens by request, and the instants: one for all of a
request's tokens, or one for each."""


@dataclass(slots=True)
class Outcome:
    """The result of one request; instants in emulated seconds.

    Its tokens are entries `begins` to `ends` of the device's `timeline`, if that is kept; `before_s` are the instants
    of those from a device that was lost. A refused request has the reason, `refused`, and no instants. `key` is what
    the workload calls its key, and `request` has it if the server knows it.
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
    refused: Reason | None = None
    key: str = ""

    @property
    def tokens_s(self) -> list[float]:
        """The instant of each token. Only where the timeline is kept."""
        assert self.timeline is not None, "observers hear of requests and steps, not of tokens"
        instants = list(self.before_s)
        for given, ends_s in self.timeline[self.begins : self.ends]:
            if count := given.get(self.request.id):
                instants += ends_s if len(ends_s) > 1 else ends_s * count
        return instants

    @property
    def made(self) -> int:
        return self.tokens

    @property
    def resumed(self) -> Request:
        """The request as a device takes it that replaces a lost one."""
        return msgspec.structs.replace(self.request, released=self.tokens, kv_lost=True)

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


@dataclass(frozen=True, slots=True)
class VirtualDevice:
    """A device from emulated instant `at_s` on; not `serving` while it is lost."""

    index: int
    spec: DeviceSpec
    device_limits: DeviceLimits
    serving: bool
    at_s: float

    @property
    def gone(self) -> bool:
        """Tell that it may come back."""
        return False


class VirtualObserver(Observer[Outcome, VirtualDevice]):
    """Observes a run in virtual time. Devices take turns, so one may report an instant a little before the last one of
    another."""

    def on_tokens(self, given: dict[str, int], ends_s: list[float]) -> None:
        """Hear how many tokens each request got of a device's step: at its end all of them, or, where steps are told of
        as one, one at each of the `ends_s`. Before a request's end is told."""


class VirtualBroadcast(Broadcast[Outcome, VirtualDevice], VirtualObserver):
    """Tells several observers of a run in virtual time, in order."""


class VirtualNode(VirtualDriver):
    """A device with its scheduler, and the outcomes of its requests."""

    def __init__(  # noqa: PLR0913  # a device is made of these
        self,
        index: int,
        pricer: Pricer,
        tier: ExternalTier,
        limits: Limits,
        rules: SchedulerRules,
        leaps: bool = True,
        observer: VirtualObserver | None = None,
        keep: bool = True,
    ) -> None:
        """With `leaps`, make equal steps at once: same instants, one record for all. With `keep`, keep all steps as
        `records`, and the instants of all tokens."""
        self.index = index
        # Of those that have not ended.
        self.outcomes: dict[str, Outcome] = {}
        self.records: list[StepRecord] = []
        self.scheduler = Scheduler(limits, rules)
        self._observer = observer or VirtualObserver()
        self._timeline: Timeline | None = [] if keep else None
        tokens = TokenCounter()
        engine = Engine(index, planner=self.scheduler, pricer=pricer, tier=tier, tokens=tokens, sink=self._note)
        super().__init__(engine, tokens, self.outcomes, leaps)

    def submit(self, request: Request, key: str = "") -> Outcome:
        """Queue a request that arrives; return its outcome, which fills up as the run goes on."""
        outcome = Outcome(request, self.index, self._timeline, key=key)
        self._observer.on_begin(outcome)
        self._take(request, outcome, request.arrival_s)
        return outcome

    def resume(self, outcome: Outcome, at_s: float) -> None:
        """Continue here a request begun on a lost device."""
        outcome.before_s = tuple(outcome.tokens_s) if self._timeline is not None else ()
        outcome.device, outcome.timeline = self.index, self._timeline
        self._observer.on_move(outcome)
        self._take(outcome.resumed, outcome, at_s)

    def lose(self, at_s: float) -> list[Outcome]:
        """Lose the device at `at_s`; return its unfinished outcomes, each with its number of tokens."""
        self._end(at_s)
        released = self.scheduler.give_up(self.engine.done())
        for id, outcome in self.outcomes.items():
            outcome.ends, outcome.tokens = len(self._timeline or ()), released[id]
        return list(self.outcomes.values())

    def begin_again(self, gone: "VirtualNode", at_s: float) -> None:
        """Replace the lost device `gone` from `at_s` on, and take over its records."""
        self.engine.at_s = at_s
        self.records = gone.records

    def _take(self, request: Request, outcome: Outcome, at_s: float) -> None:
        self.outcomes[request.id] = outcome
        outcome.begins = outcome.ends = len(self._timeline or ())
        self.scheduler.submit(request, in_time=True)
        # As long as nobody leaves a full batch it stays as it is, whoever comes.
        if self._pending is None or not self.scheduler.full:
            self._renew(at_s)

    def degrade(self, at_s: float, pricer: Pricer, limits: Limits) -> None:
        """Take another condition's `pricer` and `limits` from `at_s` on; the rest of the current step is repriced."""
        self.scheduler.limit(limits)
        self._change(at_s, pricer)

    def _note(self, release: Release) -> None:
        for id in release.started:
            self.outcomes[id].started_s = min(self.outcomes[id].started_s, release.start_s)
        ends_s = release.ends_s or [release.at_s]
        if self._timeline is not None:
            self._timeline.append((self._tokens.given, ends_s))
        news = [(self.outcomes[chunk.request_id], chunk) for chunk in release.chunks]
        self._observer.on_release(release, news)
        self._observer.on_tokens(self._tokens.given, ends_s)
        for outcome, chunk in news:
            self._note_chunk(outcome, chunk, ends_s)
        if release.record is not None:
            if self._timeline is not None:
                self.records.append(release.record)
            self._observer.on_step(release.record)

    def _note_chunk(self, outcome: Outcome, chunk: Chunk, ends_s: list[float]) -> None:
        """Record the first or last token of a request."""
        entries = len(self._timeline or ())
        if not outcome.tokens:
            outcome.first_s, outcome.begins = ends_s[0], entries - 1
        outcome.last_s, outcome.ends = ends_s[-1], entries
        outcome.tokens = chunk.first + len(chunk.tokens)
        if chunk.finish is not None:
            del self.outcomes[chunk.request_id]
            self._observer.on_finish(outcome)
