"""Steps that are planned and priced, and not made yet: they are made once time, real or virtual, has come to their end.

Until then a change can cut them short: what has begun is ended, and the next step is planned anew.
"""

import numpy as np

from serving.device.engine import Engine
from serving.device.pricing import Priced
from serving.device.step_underway import StepUnderway
from serving.types import Batch


class PendingSteps:
    """The next steps of an engine's batch, which is not empty, with their instants known beforehand."""

    def __init__(self, engine: Engine, batch: Batch, leaps: bool) -> None:
        """With `leaps` equal steps are made at once, otherwise one after the other."""
        self._engine, self._batch, self._leaps = engine, batch, leaps
        self._prices = engine.price(batch)
        self._holds_s = engine.holds_s(batch)
        self._first = True
        self._ends_s: list[float] = []
        self._underway: StepUnderway | None = None
        self._priced = self._alone(next(self._prices))
        self._look()

    @property
    def end_s(self) -> float:
        """When the last of them ends."""
        return self._ends_s[-1]

    def cut(self, at_s: float) -> None:
        """Something changes at an instant: the step then under way is the last."""
        self._holds_s = min(self._holds_s, at_s)
        if len(self._ends_s) > 1 and at_s <= self._ends_s[-2]:
            self._ends_s = self._ends_s[: int(np.searchsorted(self._ends_s, at_s)) + 1]

    def change(self, at_s: float) -> None:
        """The device is in another condition from an instant on: what is left of the step then under way is made at the
        new pace, and it is the last."""
        self.cut(at_s)
        if self.end_s <= at_s:
            return
        if len(self._ends_s) > 1:
            self._leave_the_last()
        if self._underway is None:
            self._underway = StepUnderway(self._engine.at_s, self._priced)
        self._underway.change(at_s, self._engine.again(self._priced))
        self._ends_s = [self._underway.end_s]

    def lose(self, at_s: float) -> None:
        """The device is gone at an instant, and the step then under way with it: make those that have ended."""
        self._ends_s = [end_s for end_s in self._ends_s if end_s <= at_s]
        if self._ends_s:
            self.make()

    def make(self, late_real_s: float = 0.0) -> int:
        """Make them, so many real seconds after their end; how many tokens were not there."""
        priced = self._underway.priced if self._underway is not None else self._priced
        underruns = self._engine.make(self._batch, priced, self._ends_s, self._first, late_real_s)
        self._first, self._underway = False, None
        return underruns

    def go_on(self) -> bool:
        """Look at the next steps of the same plan, once those before were made; False if there are none, or something
        has changed."""
        if self._priced.run is not None or self._engine.at_s >= self._holds_s or self._engine.ended:
            return False
        following = next(self._prices, None)
        if following is None:
            return False
        self._priced = following._replace(run=None)
        self._look()
        return True

    def _leave_the_last(self) -> None:
        """Make all but the last, which have ended."""
        run, made = self._priced.run, len(self._ends_s) - 1
        assert run is not None
        self._ends_s = self._ends_s[:-1]
        self.make()
        self._priced = self._priced._replace(cost=run.at(made), run=None)

    def _alone(self, priced: Priced) -> Priced:
        """A step by itself, unless it may be made with those after it."""
        return priced if self._leaps else priced._replace(run=None)

    def _look(self) -> None:
        """How far the next steps go: those of a run up to the first that ends when they hold no longer, or just one."""
        priced, at_s = self._priced, self._engine.at_s
        if priced.run is None or len(priced.run) == 1:
            self._ends_s = [at_s + priced.cost.latency_s]
            return
        latencies_s = priced.run.latency_s
        ends_s = np.add.accumulate(np.concatenate(((at_s,), latencies_s)))[1:]
        self._ends_s = ends_s[: int(np.searchsorted(ends_s, self._holds_s)) + 1].tolist()
