"""One-tier device: holds a whole model in one tier of memory, and decodes plainly, without spills or drafts."""

from device_model.device import RooflineDevice
from device_model.one_tier.memory import OneTier
from device_model.roofline import Unit
from device_model.setup import Setup
from device_model.step import StepCost, StepCosts, StepPlan
from device_model.stretches import Stretches

NO_DRAFT = "The plan has a draft, and the device none: it decodes plainly"
ONE_TIER = "All that the device holds lies in one tier; nothing moves between tiers"


class OneTierDevice(RooflineDevice):
    """A device of which the slow tier is a link."""

    hits_are = "hot"
    placement: OneTier

    def __init__(self, setup: Setup, static_w: float, unit: Unit) -> None:
        super().__init__(setup, static_w, unit)
        self._stretches = Stretches(super().probe)

    def forget(self) -> None:
        """Answer anew what was answered before: the device has changed."""
        self._known.clear()
        self._stretches = Stretches(super().probe)

    def probe(self, plan: StepPlan, steps: int = 1, ext_bytes_per_s: float | None = None) -> StepCosts:
        """Return the cost of steps, as of any device. Raise ValueError for a draft too."""
        if plan.draft is not None:
            raise ValueError(NO_DRAFT)
        if steps > 1 and self.size.sums_suffice and self._stretches.cover(plan):
            return self._stretches.probe(plan, steps, ext_bytes_per_s)
        return super().probe(plan, steps, ext_bytes_per_s)

    def transfer(self, to_hb_bytes: float, to_ext_bytes: float, ext_bytes_per_s: float | None = None) -> StepCost:
        """Return the cost of no transfer. Raise ValueError for any bytes: there is nowhere to move them."""
        if to_hb_bytes or to_ext_bytes:
            raise ValueError(ONE_TIER)
        return super().transfer(0.0, 0.0, ext_bytes_per_s)

    def unit_with(self, ext_bytes_per_s: float) -> Unit:
        return self._unit._replace(ext_bytes_per_s=ext_bytes_per_s)
