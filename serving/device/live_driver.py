"""Live driver: runs an engine by a clock, which waits for the end of each step, then releases its tokens."""

from collections.abc import Callable

from serving.clock import Clock
from serving.device.engine import Engine
from serving.device.pending_steps import PendingSteps
from serving.types import NEVER, Chunk

# A device whose tokens are this far behind waits for them: beyond, what it emulates has no text to go with it, and may
# be the decoding of what has stopped long ago.
MAX_OWED = 64
# For requests that are on their way a device waits so many real seconds at most, and this share of what the last step
# took: then there is time enough to plan the next one, and it ends when it should. It looks for them this often, and
# not for those that came so long before the end of a step: they are with the scheduler, or will be late for the next.
MOST_AWAITED_S, SHARE_AWAITED = 1e-2, 0.5
LONGEST_AWAITED_S = 1.5e-2
ARRIVAL_LOOK_S = 1e-3


class LiveDriver:
    """Runs a device's steps in real time. Call `cycle` in a loop; other threads may call the rest."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        flush: Callable[[], None] = lambda: None,
        arriving_s: Callable[[float], float] = lambda since_s: NEVER,
    ) -> None:
        """`flush` is called before each wait, and when a cycle fails: the engine's sink may hold releases back until
        then. `arriving_s` returns when the earliest request after an instant came of which the scheduler may not have
        heard."""
        self.engine = engine
        self._clock, self._flush, self._arriving_s = clock, flush, arriving_s
        self._news = self._left = False
        self._changed_s: float | None = None
        self._told_until_s = engine.stalled_until_s

    def leave(self) -> None:
        """Wait for nothing any more that may never come, as another driver takes this one's place: a cycle ends with
        its step."""
        self._left = True
        self.poke()

    def poke(self) -> None:
        """Report a change of the batch: the next step is planned anew."""
        self._news = True
        self._clock.signal()

    def stall(self, until_s: float) -> None:
        """Stand still from the end of the current step until `until_s`. A later call may move that instant; one in the
        past ends the stall now, and one with the same instant changes nothing."""
        if until_s == self._told_until_s:
            return
        self._told_until_s, now_s = until_s, self._clock.now()
        is_over = until_s <= now_s < self.engine.stalled_until_s
        self.engine.stalled_until_s = now_s if is_over else until_s
        self.poke()

    def change(self, at_s: float) -> None:
        """Take up a new condition, which the pricer and the tier know already: what the current step has left at
        emulated instant `at_s`, however late the news of it, is repriced."""
        self._changed_s, self._news = at_s, True
        self._clock.interrupt()
        self._clock.signal()

    def push(self, chunks: list[Chunk], source: int = 0) -> None:
        """Buffer tokens from a source, by its index; release overdue ones at once."""
        if self.engine.push(chunks, self._clock.now(), source):
            self._clock.signal()

    def cycle(self) -> None:
        """Plan once, and make the steps of that plan until something changes."""
        try:
            self._cycle()
        except BaseException:
            # Tokens that were taken from their buffers are not there for a loop that begins again.
            self._flush()
            raise

    def _cycle(self) -> None:
        self._hear()
        while self.engine.stand_still():
            self._wait_out_stall()
            self._hear()
        batch = self.engine.plan(self._clock.now())
        if not batch.ids:
            self._wait(batch.until_s)
            return
        steps = PendingSteps(self.engine, batch, leaps=False)
        self._make(steps)
        while not self._has_news() and steps.advance():
            self._make(steps)

    def _has_news(self) -> bool:
        """Tell whether the batch has changed by the end of the step."""
        self._await_arrivals()
        return self._news

    def _await_arrivals(self) -> None:
        """Wait a moment for requests that have come by the end of the step, while they are on their way: the next one
        is theirs too. It ends when it would have, as long as there is time left to plan it."""
        engine, clock = self.engine, self._clock
        since_s = engine.at_s - LONGEST_AWAITED_S * clock.speed
        if self._arriving_s(since_s) > engine.at_s:
            return
        until_s = engine.at_s + min(MOST_AWAITED_S * clock.speed, SHARE_AWAITED * engine.last_step_s)
        while (now_s := clock.now()) < until_s and self._arriving_s(since_s) <= engine.at_s:
            self._wait(min(until_s, now_s + ARRIVAL_LOOK_S * clock.speed))

    def _hear(self) -> None:
        """Forget the news that the next plan takes up. Called before it is asked for: news that come meanwhile lead to
        another."""
        self._news, self._changed_s = False, None

    def _make(self, steps: PendingSteps) -> None:
        """Wait for the end of a step, at whatever pace it goes on meanwhile, and make it."""
        if steps.end_s > self._clock.now():
            self._flush()
        if steps.make(self._until_end(steps)):
            self._catch_up()

    def _until_end(self, steps: PendingSteps) -> float:
        """Wait for the end of a step, which moves with each change; return the real seconds since then."""
        while True:
            late_real_s = self._clock.until(steps.end_s)
            at_s, self._changed_s = self._changed_s, None
            if at_s is not None:
                steps.reprice(at_s)
            elif late_real_s >= 0:
                return late_real_s

    def _wait_out_stall(self) -> None:
        """Let a stall pass. A clock's wait may end sooner than it is asked to."""
        engine = self.engine
        while self._clock.now() < engine.stalled_until_s and not self._left:
            self._wait(engine.stalled_until_s)
        engine.resume(self._clock.now())

    def _catch_up(self) -> None:
        """Wait for tokens that are long overdue. Arrivals go on meanwhile, so emulated time does too."""
        tokens, behind = self.engine.tokens, False
        while tokens.owed() > MAX_OWED and not self._left:
            behind = True
            self._wait(NEVER)
        if behind:
            self.engine.at_s = max(self.engine.at_s, self._clock.now())

    def _wait(self, until_s: float) -> None:
        self._flush()
        self._clock.wait(until_s)
