"""Devices on monolithic 3D DRAM, as tests want them."""

import dataclasses

import numpy as np

from device_model.experts.topic_usage import TopicUsage
from device_model.load import load_model
from device_model.mono3d.device import Mono3dDevice
from device_model.specs.hardware_file import load_hardware
from device_model.systems import stratum

SIZES = {
    "olmoe-1b-7b": "stratum-s",
    "mixtral-8x7b": "stratum-l",
    "qwen2.5-32b": "stratum-l",
    "llama-4-scout": "stratum-xl",
}


def near(model: str = "mixtral-8x7b", variant: str = "", hit_rate: float | None = None, **figures) -> Mono3dDevice:
    """Stratum for one of its models, with other `figures` of its hardware."""
    hardware = load_hardware(SIZES[model] + (f"-{variant}" if variant else ""))
    setup = stratum.Device.setup_of(model, dataclasses.replace(hardware, **figures), load_model(model))
    return stratum.Device(setup, hit_rate)


def with_kv_share(device: Mono3dDevice, share: float) -> Mono3dDevice:
    """The same with another share of the free rows between hot and cold experts."""
    calibration = dataclasses.replace(device.setup.calibration, kv_share_of_free_rows=share)
    return stratum.Device(dataclasses.replace(device.setup, calibration=calibration))


def usage_of(model: str, topics: int = 4, seed: int = 0) -> TopicUsage:
    """A table in which each topic prefers experts of its own."""
    spec = load_model(model)
    shares = np.random.default_rng(seed).dirichlet(np.full(spec.experts, 0.3), (topics, spec.expert_layers))
    return TopicUsage(tuple(f"topic {index}" for index in range(topics)), shares)
