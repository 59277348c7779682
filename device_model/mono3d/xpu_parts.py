"""xPU parts of prefill: all weights cross the interposer, and the NMP rests (Stratum, 3.1)."""

from device_model.experts.hot_hits import ExpertTouch
from device_model.mono3d.setup import Mono3dSetup
from device_model.roofline import NEVER_BOUND, Part, Unit
from device_model.size import ModelSize
from device_model.work import StepWork

WHY = "a prompt's tokens share each weight: the xPU has the compute"


def xpu_unit(setup: Mono3dSetup) -> Unit:
    """Return all dies of the xPU, with the whole interposer. A MAC costs what the dies draw at the rate that they
    reach, beyond what they draw anyhow; a byte is read from a row and crosses the interposer.
    """
    hardware, calibration = setup.hardware, setup.calibration
    macs_per_s = hardware.die_macs_per_s * calibration.compute_share
    beyond_w = hardware.dies * hardware.die_tdp_w * (1 - calibration.die_power_share)
    return Unit(
        name="xPU",
        macs_per_s=macs_per_s,
        hb_bytes_per_s=NEVER_BOUND,
        ext_bytes_per_s=hardware.slow.bytes_per_s,
        link_bytes_per_s=NEVER_BOUND,
        j_per_mac=beyond_w / macs_per_s,
        hb_j_per_byte=0.0,
        ext_j_per_byte=hardware.read_j_per_byte + calibration.interposer_j_per_byte,
        link_j_per_byte=0.0,
    )


def prefill(size: ModelSize, work: StepWork, touch: ExpertTouch, unit: Unit) -> tuple[tuple[Part, ...], ...]:
    """Return the groups of a pass over the prompts of `work`, which touches those experts."""
    static = Part("prefill", unit, WHY, size.static_macs(work), ext_bytes=size.static_read_bytes)
    attention = Part("prefill attention", unit, WHY, size.attention_macs(work), ext_bytes=size.kv_traffic_bytes(work))
    read = touch.touched * size.expert_bytes
    experts = Part("prefill experts", unit, WHY, size.expert_macs(work), ext_bytes=read)
    return ((static,), (attention,), (experts,)) if touch.touched else ((static,), (attention,))
