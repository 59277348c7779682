"""HB-xPU: the xPU bonded onto HB memory, with EAGLE-SD and no bit-sliced MACs (ELMoE-3D, 7, Accelerator Baselines)."""

from device_model.hb_xpu.tiered import TieredDevice


class Device(TieredDevice):
    """ELMoE-3D's memory without its draft."""

    drafts = ("eagle", "slm", "quant")
    own_draft = "eagle"
