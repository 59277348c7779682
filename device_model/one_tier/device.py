"""One-tier device: holds a whole model in one tier of memory, and decodes plainly, without spills or drafts."""

from device_model.one_tier.memory import OneTier
from device_model.plain import PlainDevice
from device_model.step import StepCost

ONE_TIER = "All that the device holds lies in one tier; nothing moves between tiers"


class OneTierDevice(PlainDevice):
    """A device of which the slow tier is a link."""

    hits_are = "hot"
    placement: OneTier

    def transfer(self, to_hb_bytes: float, to_ext_bytes: float, ext_bytes_per_s: float | None = None) -> StepCost:
        """Return the cost of no transfer. Raise ValueError for any bytes: there is nowhere to move them."""
        if to_hb_bytes or to_ext_bytes:
            raise ValueError(ONE_TIER)
        return super().transfer(0.0, 0.0, ext_bytes_per_s)
