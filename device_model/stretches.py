"""Steps of a few sequences that decode, priced in stretches that are remembered.

Where only the sum of contexts counts, n sequences go through the same steps whenever their sum leaves the same rest by
n, and each such way is cut into stretches. A fleet of many devices with little to do walks the same ones all day.
"""

from collections.abc import Callable

import numpy as np

from device_model.step import FloatArray, StepCosts, StepPlan
from device_model.work import all_decode

# Steps of a stretch: as many as a scheduler looks ahead, so that an answer is of two at most.
STEPS = 256
# Sequences beyond which there are too many ways for one to be walked again, and stretches that are remembered.
FEW, KNOWN = 16, 1024

Probe = Callable[[StepPlan, int, float | None], StepCosts]
Key = tuple[int, int, int, float | None]


class Stretches:
    """What `probe` answers, the same to the last digit."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._known: dict[Key, FloatArray] = {}

    def cover(self, plan: StepPlan) -> bool:
        """Tell whether a plan is of few sequences that decode, and has nothing special."""
        plain = plan.draft is None and plan.routes is None and plan.placed is None and plan.topics is None
        return plain and 0 < len(plan.context) <= FEW and all_decode(plan) and int(plan.context.min()) >= 0

    def probe(self, plan: StepPlan, steps: int, ext_bytes_per_s: float | None) -> StepCosts:
        """Return the costs of the coming steps of a plan that is covered."""
        sequences = len(plan.context)
        step, rest = divmod(int(plan.context.sum()), sequences)
        number, start = divmod(step, STEPS)
        tables = [self._stretch((sequences, rest, number, ext_bytes_per_s))[start : start + steps]]
        while (have := sum(map(len, tables))) < steps:
            number += 1
            tables.append(self._stretch((sequences, rest, number, ext_bytes_per_s))[: steps - have])
        return StepCosts(tables[0] if len(tables) == 1 else np.concatenate(tables))

    def _stretch(self, key: Key) -> FloatArray:
        table = self._known.get(key)
        if table is None:
            sequences, rest, number, ext_bytes_per_s = key
            context = np.full(sequences, number * STEPS, dtype=np.int64)
            context[0] += rest
            table = self._probe(StepPlan(np.ones_like(context), context), STEPS, ext_bytes_per_s).table
            if len(self._known) >= KNOWN:
                del self._known[next(iter(self._known))]
            self._known[key] = table
        return table
