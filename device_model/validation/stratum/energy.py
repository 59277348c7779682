"""Energy of requests on GPUs over that on Stratum (6.3.2): powers of xPU and GPUs are estimates.

Unlike decoding throughput beside it, it is read as that of whole requests: "energy and latency consumed by xPU and NMP
are accumulated during simulated serving" (6.1.3), and nvidia-smi measures GPUs while vLLM's throughput benchmark serves
prompts too. "For the same decoding tasks" (6.3.2) can be read as decoding alone: the arithmetic says what that gives.
"""

from typing import NamedTuple

import numpy as np

from device_model.device import RooflineDevice
from device_model.step import StepCosts, StepPlan
from device_model.validation.stratum.setting import BATCH, LENGTHS, Setting


class ServedBatch(NamedTuple):
    """Seconds and joules of a batch of requests, from prompts to last tokens; of the joules, those by component, and of
    the seconds, those of the prompts."""

    seconds: float
    prompt_s: float
    joules: float
    fast_j: float
    compute_j: float

    @property
    def watts(self) -> float:
        return self.joules / self.seconds

    @property
    def prompt_share(self) -> float:
        return self.prompt_s / self.seconds


def best_over_gpu(setting: Setting, model: str) -> float:
    """Return the largest over lengths, as the paper prints it."""
    return max(_over_gpu(setting, model, length) for length in LENGTHS)


def best_decoding_over_gpu(setting: Setting, model: str) -> float:
    """Return the largest over lengths if prompts are left out: the other reading of 6.3.2."""
    near, gpu = setting.near(model), setting.gpu(model)
    return max(
        float(_decoding(gpu, length).energy_j.sum() / _decoding(near, length).energy_j.sum()) for length in LENGTHS
    )


def arithmetic(setting: Setting, model: str) -> str:
    """Return seconds and watts of a batch on either at that length, and the figure of decoding alone, in words."""
    length = max(LENGTHS, key=lambda each: _over_gpu(setting, model, each))
    gpu, near = (_served(device(model), length) for device in (setting.gpu, setting.near))
    stratum = setting.near(model)
    logic_w = (1 - near.prompt_share) * stratum.near_w
    return (
        f"with {length} tokens a batch takes GPUs {gpu.seconds:.1f} s at {gpu.watts:.0f} W, Stratum "
        f"{near.seconds:.1f} s at {near.watts:.0f} W, {near.prompt_share:.0%} of them for prompts: rows "
        f"{near.fast_j / near.seconds:.0f}, MACs {near.compute_j / near.seconds:.0f}, other logic {logic_w:.0f}, xPU "
        f"beside its MACs {stratum.working_w:.0f}; of decoding alone the figure "
        f"is {best_decoding_over_gpu(setting, model):.2f}"
    )


def _over_gpu(setting: Setting, model: str, length: int) -> float:
    gpu, near = (_served(device(model), length) for device in (setting.gpu, setting.near))
    return gpu.joules / near.joules


def _served(device: RooflineDevice, length: int) -> ServedBatch:
    """Return a batch whose prompts have `length` tokens, and outputs as many: the first of them is the prompts'."""
    prompts = device.probe(StepPlan.of(*[(length, 0)] * BATCH))
    costs = StepCosts(np.concatenate([prompts.table, _decoding(device, length).table]))
    joules = costs.energy_j.sum(axis=0)
    compute_j, _, fast_j, *_ = joules.tolist()
    return ServedBatch(
        float(costs.latency_s.sum()), float(prompts.latency_s[0]), float(joules.sum()), fast_j, compute_j
    )


def _decoding(device: RooflineDevice, length: int) -> StepCosts:
    """Return the steps after prompts of `length` tokens, up to as long outputs."""
    return device.probe(StepPlan.of(*[(1, length)] * BATCH), length - 1)
