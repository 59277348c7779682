"""Stratum (arXiv 2510.05245): near-memory decoding over tiers of monolithic 3D DRAM, experts placed by topic."""

from device_model.mono3d.device import Mono3dDevice


class Device(Mono3dDevice):
    """Stratum-S, -L or -XL, by its hardware. It decodes plainly."""
