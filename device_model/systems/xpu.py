"""The baseline of ELMoE-3D (7, Accelerator Baselines): the same die, with all it needs in LPDDR."""

from dataclasses import replace

from device_model.draft import Draft
from device_model.hb_xpu.tiered import TieredDevice
from device_model.setup import XpuSetup


class Device(TieredDevice):
    """An xPU without hybrid-bonded memory."""

    drafts = ("eagle", "slm", "quant")

    def __init__(self, setup: XpuSetup, draft: Draft | None = None) -> None:
        super().__init__(replace(setup, hardware=setup.hardware.without_hb()), draft)
