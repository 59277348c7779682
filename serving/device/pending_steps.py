"""Steps that are planned and priced but not made: they are made once their time, real or virtual, is up.

Until then a change can cut them short: the step under way is completed, and the next one is planned anew.
"""

from collections import deque
from itertools import islice, starmap, zip_longest
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from serving.device.engine import Engine, PackedRelease
from serving.device.pricing import StepPrice
from serving.device.step_records import planned_record
from serving.device.step_underway import StepUnderway
from serving.types import Batch, StepRecord

# Steps that are priced and recorded together, where nothing but time changes from one to the next. A device wakes for
# each step to cold caches: what it then does for as many takes little longer than for one.
TOGETHER = 16


class ComingStep(NamedTuple):
    """A step after the next one: its price, its record but for what only its release tells, and that release if it is
    ready."""

    priced: StepPrice
    record: StepRecord
    packed: PackedRelease | None = None


class PendingSteps:
    """The next steps of an engine's non-empty batch, with the instants at which they will end."""

    def __init__(self, engine: Engine, batch: Batch, leaps: bool) -> None:
        """Price the batch. With `leaps`, equal steps are made at once, otherwise one after the other."""
        self._engine, self._batch, self._leaps = engine, batch, leaps
        self._prices = engine.price(batch)
        self._holds_s = engine.holds_s(batch)
        self._first = True
        self._ends_s: list[float] = []
        self._underway: StepUnderway | None = None
        self._priced = self._without_run(next(self._prices))
        self._record: StepRecord | None = None
        self._packed: PackedRelease | None = None
        self._coming = deque[ComingStep]()
        self._set_ends()

    @property
    def end_s(self) -> float:
        """The instant at which the last pending step ends."""
        return self._ends_s[-1]

    def cut(self, at_s: float) -> None:
        """Drop steps that start after `at_s`."""
        self._holds_s = min(self._holds_s, at_s)
        if len(self._ends_s) > 1 and at_s <= self._ends_s[-2]:
            self._ends_s = self._ends_s[: int(np.searchsorted(self._ends_s, at_s)) + 1]

    def reprice(self, at_s: float) -> None:
        """Reprice from `at_s` on: what is left of the step under way takes the pace of the device's new condition, and
        it becomes the last step."""
        self.cut(at_s)
        if self.end_s <= at_s:
            return
        if len(self._ends_s) > 1:
            self._make_all_but_last()
        if self._underway is None:
            self._underway = StepUnderway(self._engine.at_s, self._priced)
        self._underway.reprice(at_s, self._engine.again(self._priced))
        self._ends_s = [self._underway.end_s]

    def discard_after(self, at_s: float) -> None:
        """Make the steps ended by `at_s`; discard the rest."""
        self._ends_s = [end_s for end_s in self._ends_s if end_s <= at_s]
        if self._ends_s:
            self.make()

    def make(self, late_real_s: float = 0.0) -> int:
        """Make the steps, `late_real_s` late; return the number of underruns."""
        engine, steps = self._engine, len(self._ends_s)
        priced, record = self._priced, self._record
        if (
            self._packed is not None
            and self._underway is None
            and engine.make_packed(self._packed, priced, late_real_s)
        ):
            return 0
        if self._underway is not None:
            priced, record = self._underway.priced, None
        if steps > 1:
            assert priced.run is not None
            whole = priced.run.total(steps)._replace(latency_s=self.end_s - engine.at_s)
            priced = priced._replace(cost=whole)
        if record is None:
            record = planned_record(engine.device, self._batch, priced, engine.at_s, steps, self._first)
        elif record.start_s != engine.at_s:
            # The device has waited for its tokens since the record was made.
            record = replace(record, start_s=engine.at_s)
        underruns = engine.make(self._batch, priced, record, self._ends_s, late_real_s)
        self._first, self._underway = False, None
        return underruns

    def advance(self) -> bool:
        """Advance to the plan's next steps, once the last ones were made. Return False if a new plan is needed: no
        steps are left, a request has ended, or the plan no longer holds."""
        if self._priced.run is not None or self._engine.at_s >= self._holds_s or self._engine.ended:
            return False
        if not self._coming:
            self._prepare()
        if not self._coming:
            return False
        self._priced, self._record, self._packed = self._coming.popleft()
        self._set_ends()
        return True

    def _prepare(self) -> None:
        """Price and record the next step, and more that do not depend on what becomes of it; have their releases ready
        as far as can be."""
        start_s = self._engine.at_s
        prices, records, ends_s = list[StepPrice](), list[StepRecord](), list[float]()
        for following in islice(self._prices, TOGETHER):
            priced = following._replace(run=None)
            prices.append(priced)
            records.append(planned_record(self._engine.device, self._batch, priced, start_s))
            start_s += priced.cost.latency_s
            ends_s.append(start_s)
            if following.run is None:
                break
        packed = self._engine.pack(self._batch, records, ends_s) if len(records) > 1 else []
        self._coming.extend(starmap(ComingStep, zip_longest(prices, records, packed)))

    def _make_all_but_last(self) -> None:
        """Make all pending steps but the last."""
        run, made = self._priced.run, len(self._ends_s) - 1
        assert run is not None
        self._ends_s = self._ends_s[:-1]
        self.make()
        self._priced = self._priced._replace(cost=run.at(made), run=None)

    def _without_run(self, priced: StepPrice) -> StepPrice:
        """Return the price without its run, unless equal steps may be made at once."""
        return priced if self._leaps else priced._replace(run=None)

    def _set_ends(self) -> None:
        """Set the ends of the next steps: a run's, up to the first that ends after the plan's limit, or one step's."""
        priced, at_s = self._priced, self._engine.at_s
        if priced.run is None or len(priced.run) == 1:
            self._ends_s = [at_s + priced.cost.latency_s]
            return
        latencies_s = priced.run.latency_s
        ends_s = np.add.accumulate(np.concatenate(((at_s,), latencies_s)))[1:]
        self._ends_s = ends_s[: int(np.searchsorted(ends_s, self._holds_s)) + 1].tolist()
