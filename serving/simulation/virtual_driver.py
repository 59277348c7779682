"""Virtual driver: runs an engine in virtual time; it says at which instant it is due next, and is called then."""

from collections.abc import Sized
from typing import NamedTuple

from serving.device.engine import Engine
from serving.device.pending_steps import PendingSteps
from serving.device.pricing import Pricer
from serving.device.token_counter import TokenCounter
from serving.types import NEVER

# What happens at one instant happens in this order: steps end, what is news to a device arrives, it plans.
ENDS, ARRIVES, PLANS = range(3)


class Due(NamedTuple):
    """The emulated instant of a next event, and its kind, by which those of one instant are ordered."""

    at_s: float
    what: int


IDLE = Due(NEVER, PLANS)


class VirtualDriver:
    """Runs a device's steps by its own due instants: `due` is what it does next, and when."""

    def __init__(self, engine: Engine, tokens: TokenCounter, unfinished: Sized, leaps: bool) -> None:
        """`unfinished` are the requests that have not ended. With `leaps`, make equal steps at once."""
        self.engine = engine
        self.due = IDLE
        self._tokens, self._unfinished, self._leaps = tokens, unfinished, leaps
        self._pending: PendingSteps | None = None

    def run(self, until_s: float) -> None:
        """Do all that is due before requests that arrive at `until_s`; by default, until nothing is left."""
        while self.due < Due(until_s, ARRIVES):
            self.proceed()

    def proceed(self) -> None:
        """Do what is due next."""
        due_s, what = self.due
        if what == ENDS:
            self._make()
        else:
            self._begin(due_s)

    def stall(self, at_s: float, until_s: float) -> None:
        """Stand still from the end of the current step until `until_s`."""
        self.engine.stalled_until_s = until_s
        self._renew(at_s)

    def _change(self, at_s: float, pricer: Pricer) -> None:
        """Take another condition's pricer from `at_s` on; the rest of the current step is repriced."""
        self.engine.pricer = pricer
        if self._pending is not None and self.due.what == ENDS:
            self._pending.reprice(at_s)
        self._renew(at_s)

    def _end(self, at_s: float) -> None:
        """Make the steps that have ended by `at_s`, and no more."""
        if self._pending is not None and self.due.what == ENDS:
            self._pending.discard_after(at_s)
        self._idle()

    def _renew(self, at_s: float) -> None:
        """Plan anew at `at_s`, or once the step then under way has ended."""
        if self._pending is not None and self.due.what == ENDS:
            self._pending.cut(at_s)
            self.due = Due(self._pending.end_s, ENDS)
        elif self._unfinished:
            self._pending, self.due = None, Due(max(at_s, self.engine.at_s), PLANS)

    def _make(self) -> None:
        assert self._pending is not None
        self._pending.make()
        self.due = Due(self.engine.at_s, PLANS)
        if not self._unfinished:
            self._idle()

    def _idle(self) -> None:
        self.engine.rest()
        self._pending, self.due = None, IDLE

    def _begin(self, now_s: float) -> None:
        """Continue the plan, or make another."""
        if self._pending is None or not self._pending.advance():
            self._pending = None
            self._plan(now_s)
        if self._pending is not None:
            self.due = Due(self._pending.end_s, ENDS)

    def _plan(self, now_s: float) -> None:
        engine = self.engine
        if engine.stand_still():
            # What arrives by then is in the next plan.
            engine.resume(now_s)
            # A stall that ended while it was idle lies in the past.
            self.due = Due(max(now_s, engine.at_s), PLANS)
            return
        batch = engine.plan(now_s)
        self.due = Due(batch.until_s, PLANS)
        if batch.ids:
            self._tokens.begin(batch)
            self._pending = PendingSteps(engine, batch, self._leaps)
