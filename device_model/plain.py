"""Plain device: decodes without drafts, and remembers the coming steps of few sequences."""

from device_model.device import RooflineDevice
from device_model.roofline import Unit
from device_model.setup import Setup
from device_model.step import StepCosts, StepPlan
from device_model.stretches import Stretches

NO_DRAFT = "The plan has a draft, and the device none: it decodes plainly"


class PlainDevice(RooflineDevice):
    """A device without a draft, whose unit changes with the bandwidth of its slow tier in nothing else."""

    def __init__(self, setup: Setup, static_w: float, unit: Unit) -> None:
        super().__init__(setup, static_w, unit)
        self._stretches = Stretches(super().probe)

    def forget(self) -> None:
        """As of any device; stretches of steps too."""
        super().forget()
        self._stretches = Stretches(super().probe)

    def probe(self, plan: StepPlan, steps: int = 1, ext_bytes_per_s: float | None = None) -> StepCosts:
        """Return the cost of steps, as of any device. Raise ValueError for a draft too."""
        if plan.draft is not None:
            raise ValueError(NO_DRAFT)
        if steps > 1 and self.size.sums_suffice and self._stretches.cover(plan):
            return self._stretches.probe(plan, steps, ext_bytes_per_s)
        return super().probe(plan, steps, ext_bytes_per_s)

    def unit_with(self, ext_bytes_per_s: float) -> Unit:
        return self._unit._replace(ext_bytes_per_s=ext_bytes_per_s)
