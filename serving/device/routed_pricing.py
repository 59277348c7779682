"""Steps on a device whose experts have places of their own, priced by what routers chose of them, hot or cold."""

from collections.abc import Iterator
from dataclasses import replace

from device_model.device import RooflineDevice
from device_model.step import StepCost
from serving.device.pricing import Priced
from serving.device.traced_pricing import Choices
from serving.policies.placement import ExpertPlacement, PlacedPlan
from serving.policies.step_options import PLAIN
from serving.types import Batch


class Routed:
    """Prices steps by the token model's routes, on a `device` that knows topics and where `placing` puts its experts
    (None: where all topics want them)."""

    def __init__(self, device: RooflineDevice, choices: Choices, placing: ExpertPlacement | None) -> None:
        self._device, self._choices, self._placing = device, choices, placing

    def price(self, batch: Batch, ext_bytes_per_s: float) -> Iterator[Priced]:
        """Yield the price of each step by the actual routes of its tokens; the first one's after a swap, if there was
        any."""
        placed = self._placing.place(batch, PLAIN, ext_bytes_per_s) if self._placing else PlacedPlan(batch.plan)
        plan = placed.plan
        for step in range(batch.horizon):
            routes, unrouted = self._choices.rows(batch, plan.new_tokens, plan.context)
            routed = replace(plan, routes=routes)
            priced = Priced(self._device.probe(routed, 1, ext_bytes_per_s).first, unrouted, plan=routed)
            yield priced.after_swap(placed.swap) if placed.swap and not step else priced
            plan = replace(plan, context=plan.context + plan.new_tokens)

    def again(self, priced: Priced, steps: int, ext_bytes_per_s: float) -> StepCost:
        """Return the present cost of a step priced earlier, without the swap before it: its routes and its experts'
        places are those of its plan."""
        assert priced.plan is not None
        return self._device.probe(priced.plan, 1, ext_bytes_per_s).first
