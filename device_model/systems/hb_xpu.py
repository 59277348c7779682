"""HB-xPU: the xPU bonded onto HB memory, with EAGLE-SD (ELMoE-3D, 7, Accelerator Baselines).

The paper gives it no bit-sliced MACs. Here it has those of the hardware, which tells where weights have 4 bits:
README.md says by how much (Known weaknesses).
"""

from device_model.hb_xpu.tiered import TieredDevice


class Device(TieredDevice):
    """ELMoE-3D's memory without its draft."""

    drafts = ("eagle", "slm", "quant")
    own_draft = "eagle"
