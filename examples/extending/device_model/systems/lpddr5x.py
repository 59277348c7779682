"""ELMoE-3D over an LPDDR that is half as fast again: how much of HB's advantage is left?"""

from dataclasses import replace

from device_model.draft import Draft
from device_model.setup import XpuSetup
from device_model.systems import elmoe3d

FASTER = 1.5
"""Assumed: LPDDR5X at 9.6 Gb/s a pin, where ELMoE-3D's Table 1 has LPDDR5-6400."""


class Device(elmoe3d.Device):
    """The same device in all else."""

    drafts = (*elmoe3d.Device.drafts, "shallow")

    def __init__(self, setup: XpuSetup, draft: Draft | None = None) -> None:
        hardware = replace(setup.hardware, ext_gb_per_s=FASTER * setup.hardware.ext_gb_per_s)
        super().__init__(replace(setup, hardware=hardware), draft)
