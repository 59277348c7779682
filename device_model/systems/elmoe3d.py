"""ELMoE-3D: an xPU under hybrid-bonded memory that caches experts, and speculates with Elastic-SD from a batch on.

It runs the other schemes of the paper's comparison too (7.1, Table 3).
"""

from device_model.hb_xpu.tiered import TieredDevice


class Device(TieredDevice):
    """Static weights and KV in HB, experts cached in what is left."""

    drafts = ("elastic", "random", "eagle", "slm", "quant")
    own_draft = "elastic"
