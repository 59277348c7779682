"""The setting in which all figures of Stratum are predicted: what its paper leaves open, and what it compares."""

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from device_model.load import load_model
from device_model.mono3d.device import Mono3dDevice
from device_model.one_tier.device import OneTierDevice
from device_model.one_tier.gpu import GpuDevice
from device_model.specs.hardware_file import load_hardware
from device_model.step import StepCost, StepPlan
from device_model.systems import gpu, stratum
from device_model.validation.stratum.assumed import ASSUMED


def _whole(numbers: tuple[float, ...]) -> tuple[int, ...]:
    return tuple(map(int, numbers))


BATCH, LENGTHS = ASSUMED.batch, _whole(ASSUMED.lengths)
HIT_BATCH, HIT_LENGTHS = ASSUMED.hit_batch, _whole(ASSUMED.hit_lengths)
SCALED_BATCHES, SCALED_LENGTHS = _whole(ASSUMED.scaled_batches), _whole(ASSUMED.scaled_lengths)
"""Of Fig. 16, 17 and 18a: `assumed.toml` says why."""
SEGMENT_LENGTH = 1024  # 6.3.6
REQUEST = 256  # Lin = Lout of Table 4, at a batch of 1

STRATUM = {
    "olmoe-1b-7b": "stratum-s",
    "mixtral-8x7b": "stratum-l",
    "qwen2.5-32b": "stratum-l",
    "llama-4-scout": "stratum-xl",
}
BASELINE = {"olmoe-1b-7b": "a6000", "mixtral-8x7b": "2xh100", "qwen2.5-32b": "2xh100", "llama-4-scout": "4xh100"}
"""Table 2."""


class Constants(NamedTuple):
    """The three fitted figures, in place of those of specs/calibration."""

    kv_share_of_free_rows: float
    bandwidth_share: float
    kernel_us: float


class Setting:
    """Devices with the shipped constants, or with others."""

    def __init__(self, constants: Constants | None = None) -> None:
        self._constants = constants
        self.near = lru_cache(self._near)
        self.gpu = lru_cache(self._gpu)

    @property
    def constants(self) -> Constants:
        """The three figures that hold: the same for all models."""
        model = next(iter(STRATUM))
        near, gpu = self.near(model).setup.calibration, self.gpu(model).setup.calibration
        return Constants(near.kv_share_of_free_rows, gpu.bandwidth_share, gpu.kernel_us)

    def _near(self, model: str, variant: str = "", hit_rate: float | None = None) -> Mono3dDevice:
        """Stratum for a model of Table 2, as its hardware, or a variant of it ("flat", "256")."""
        hardware = load_hardware(STRATUM[model] + (f"-{variant}" if variant else ""))
        setup = stratum.Device.setup_of(model, hardware, load_model(model))
        if self._constants is not None:
            share = self._constants.kv_share_of_free_rows
            setup = replace(setup, calibration=replace(setup.calibration, kv_share_of_free_rows=share))
        return stratum.Device(setup, hit_rate)

    def _gpu(self, model: str) -> GpuDevice:
        setup = gpu.Device.setup_of(model, load_hardware(BASELINE[model]), load_model(model))
        if self._constants is not None:
            _, bandwidth_share, kernel_us = self._constants
            fitted = replace(setup.calibration, bandwidth_share=bandwidth_share, kernel_us=kernel_us)
            setup = replace(setup, calibration=fitted)
        return gpu.Device(setup)


def decode_step(device: OneTierDevice, batch: int, length: int) -> StepCost:
    """Return the cost of a step in the middle of decoding: half of the output is there, behind as long a prompt."""
    return device.probe(StepPlan.of(*[(1, length + length // 2)] * batch)).first


def decode_s(device: OneTierDevice, batch: int, length: int) -> float:
    """Return the seconds of a step in the middle of decoding."""
    return decode_step(device, batch, length).latency_s


def request_s(device: OneTierDevice, length: int) -> float:
    """Return the seconds of a request by itself: its prompt, which yields the first token, and all later steps."""
    prompt_s = float(device.probe(StepPlan.of((length, 0))).latency_s[0])
    return prompt_s + float(device.probe(StepPlan.of((1, length)), length - 1).latency_s.sum())
