"""Route pricer: prices steps by the experts that routers chose, each of which has a place of its own, hot or cold."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, Protocol

from device_model.condition import HEALTHY, Condition
from device_model.step import IntArray, StepCost, StepPlan
from serving.device.pricing import BatchPricer, StepPrice
from serving.policies.placement import ExpertPlacement
from serving.policies.step_options import PUBLISHED, StepOptions
from serving.types import Batch


class TracedDevice(NamedTuple):
    """A device to trace: its system, hardware and model by name, the token model whose routers it follows, its draft
    scheme ("": none), where its drafts' acceptance comes from, and its condition."""

    system: str
    hardware: str
    model: str
    token_model: str
    draft: str = ""
    acceptance: str = PUBLISHED
    condition: Condition = HEALTHY


class Choices(Protocol):
    """Knows what the emulated model's routers choose: `live_routes.LiveRoutes` of a server's token model, or
    `serving.simulation.recorded_routes.RecordedRoutes` in virtual time."""

    def rows(self, batch: Batch, new: IntArray, context: IntArray, ahead: int = 0) -> tuple[IntArray, int]:
        """Expert ids [tokens, layers, top_k] of a step of `batch`, sequence by sequence: of each the `new` [n] tokens
        after the first `context` [n], and of those that decode `ahead` more; and of how many tokens they
        are guesses."""
        ...

    def emulate(self, trace: TracedDevice) -> None:
        """Follow a device whose condition has changed."""
        ...


class RoutePricer(BatchPricer):
    """Prices steps by the token model's routes, on a device that knows topics and where `placing` puts its experts
    (None: where all topics want them)."""

    def __init__(self, options: StepOptions, choices: Choices, placing: ExpertPlacement | None = None) -> None:
        super().__init__(options, placing)
        self._device, self._choices = options.device, choices

    def _steps(self, batch: Batch, plan: StepPlan, ext_bytes_per_s: float) -> Iterator[StepPrice]:
        for _ in range(batch.horizon):
            routes, unrouted = self._choices.rows(batch, plan.new_tokens, plan.context)
            routed = replace(plan, routes=routes)
            yield StepPrice(self._cost(routed, ext_bytes_per_s), unrouted, plan=routed)
            plan = replace(plan, context=plan.context + plan.new_tokens)

    def _cost(self, plan: StepPlan, ext_bytes_per_s: float) -> StepCost:
        """Return the cost of a step by itself."""
        return self._device.probe(plan, 1, ext_bytes_per_s).first

    def again(self, priced: StepPrice, steps: int, ext_bytes_per_s: float) -> StepCost:
        """Return the present cost of a step priced earlier, without what was moved before it: its routes and its
        experts' places are those of its plan."""
        assert priced.plan is not None
        return self._cost(priced.plan, ext_bytes_per_s)
