"""A GPU that keeps experts in its memory as far as there is room, and fetches others from its host's over PCIe.

What M2R2 (arXiv 2502.02040, 3 and A.7) compares its preloading with: experts are fetched when their router has spoken.
"""

from device_model.offload.device import OffloadDevice


class Device(OffloadDevice):
    """One GPU and its host. It decodes plainly."""
