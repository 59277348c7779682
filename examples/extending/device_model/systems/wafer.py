"""A model in a wafer's SRAM: each step reads what its tokens need, and all cores compute."""

from device_model.device import Execution
from device_model.experts.hot_hits import expected_touch
from device_model.one_tier.device import OneTierDevice
from device_model.one_tier.memory import one_tier
from device_model.roofline import NEVER_BOUND, TARGET, Part, Stage, Unit
from device_model.setup import Setup
from device_model.specs.hardware import Hardware
from device_model.specs.kinds import wafer
from device_model.specs.spec import DeviceError, Model
from device_model.step import StepPlan
from device_model.work import StepWork

WHY = "weights lie where they are computed with"


class Device(OneTierDevice):
    """One wafer. It decodes plainly."""

    kind = wafer.KIND

    def __init__(self, setup: Setup) -> None:
        hardware = setup.hardware
        assert isinstance(hardware, wafer.Hardware)
        super().__init__(setup, hardware.idle_power_share * hardware.power_w, _unit(hardware))
        self.working_w = hardware.power_w
        self.placement = one_tier(self.size, self.hb.capacity_bytes, "wafer")

    @classmethod
    def setup_of(cls, target: str, hardware: Hardware, model: Model) -> Setup:
        """Return a model on a wafer. Raise DeviceError for hardware of another kind."""
        if not isinstance(hardware, wafer.Hardware):
            raise DeviceError(f"The hardware is of the kind {hardware.kind}; allowed is {cls.kind} here.")
        return Setup(target, hardware, model)

    def execute(self, plan: StepPlan, work: StepWork, unit: Unit) -> Execution:
        """Read static weights, the KV cache, and experts once each."""
        size, touch = self.size, expected_touch(self.setup.model, work.tokens)
        parts = [
            Part("static weights", unit, WHY, size.static_macs(work), size.static_read_bytes),
            Part("attention", unit, WHY, size.attention_macs(work), size.kv_traffic_bytes(work)),
        ]
        if touch.touched:
            parts.append(Part("experts", unit, WHY, size.expert_macs(work), touch.touched * size.expert_bytes))
        return Execution((Stage(TARGET, 1, tuple((part,) for part in parts)),), touch.touched, touch.hot)


def _unit(hardware: wafer.Hardware) -> Unit:
    """All cores. Their joules are those of the wafer, by time."""
    return Unit(
        name="wafer",
        macs_per_s=hardware.macs_per_s * hardware.reached_share,
        hb_bytes_per_s=hardware.fast.bytes_per_s * hardware.reached_share,
        ext_bytes_per_s=hardware.slow.bytes_per_s,
        link_bytes_per_s=NEVER_BOUND,
        j_per_mac=0.0,
        hb_j_per_byte=0.0,
        ext_j_per_byte=0.0,
        link_j_per_byte=0.0,
    )
