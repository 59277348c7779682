"""Measurement: seconds that an engine took on a GPU for passes of a batch, and what the device model predicts."""

from functools import lru_cache
from typing import NamedTuple

from device_model.one_tier.gpu import GpuDevice
from device_model.step import StepPlan


class Passes(NamedTuple):
    """Consecutive passes in which each sequence computes `new_tokens` after a context that grows from `context`."""

    new_tokens: int
    context: int
    steps: int = 1


class Measurement(NamedTuple):
    """`batch` sequences made these passes, all together, in so many `seconds`; `where` names file, line and figure."""

    where: str
    batch: int
    passes: tuple[Passes, ...]
    seconds: float

    def predicted_s(self, device: GpuDevice) -> float:
        """Return the seconds that they take on an emulated GPU."""
        plans = [(_plan(self.batch, p.new_tokens, p.context), p.steps) for p in self.passes]
        return sum(float(device.probe(plan, steps).latency_s.sum()) for plan, steps in plans)

    @property
    def decodes(self) -> bool:
        """Tell whether each of its passes makes one token of each sequence."""
        return all(p.new_tokens == 1 for p in self.passes)

    @property
    def longest(self) -> int:
        """Tokens of a sequence at the end of its last pass."""
        return max(p.context + p.new_tokens * p.steps for p in self.passes)


@lru_cache(maxsize=1024)
def _plan(batch: int, new_tokens: int, context: int) -> StepPlan:
    """Return the plan of a pass: fits ask again and again what it takes."""
    return StepPlan.of(*[(new_tokens, context)] * batch)
