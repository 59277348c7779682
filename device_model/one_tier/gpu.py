"""A model served by GPUs that share each layer: a roofline over their memories, and the time that its kernels take.

Decoding reads all weights that its tokens need and the KV cache, at a share of the memory's bandwidth; each kernel
takes some time beyond its bytes and MACs. Both are fitted to the baselines of Stratum (specs/calibration/vllm-0.8.1),
or to what a user measured on the hardware itself.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from device_model.arrays import Number, largest, most
from device_model.device import Execution
from device_model.experts.hot_hits import ExpertTouch, touch_of
from device_model.one_tier.device import OneTierDevice
from device_model.one_tier.kernels import kernels
from device_model.one_tier.memory import one_tier
from device_model.roofline import NEVER_BOUND, TARGET, Part, Stage, Unit
from device_model.setup import Setup
from device_model.specs.calibrated import GpuCalibration
from device_model.specs.fitted import read_calibration
from device_model.specs.hardware import Hardware
from device_model.specs.kinds import gpu
from device_model.specs.spec import GQA, DeviceError, Model
from device_model.step import StepPlan
from device_model.work import StepWork

SPLIT = "each GPU has its part of every matrix, and all heads of some"
ALL_REDUCE = "partial sums of all GPUs, after attention and after the MLP"
NO_PLACEMENT = "The plan has experts placed by topic, and all memory of a GPU is equally fast"
SUM_BYTES = 2  # FP16


@dataclass(frozen=True, slots=True)
class GpuSetup(Setup):
    """A model on GPUs, and how an engine uses them."""

    hardware: gpu.Hardware
    calibration: GpuCalibration


class GpuDevice(OneTierDevice):
    """GPUs under vLLM."""

    kind = gpu.KIND
    setup: GpuSetup

    def __init__(self, setup: GpuSetup) -> None:
        hardware = setup.hardware
        super().__init__(setup, hardware.gpus * hardware.idle_power_share * hardware.tdp_w, _unit(setup))
        self.working_w = hardware.gpus * hardware.decode_power_share * hardware.tdp_w
        # What an engine leaves free is for graphs, and for whoever else is on the GPU.
        share = setup.calibration.memory_share
        what = f"GPUs (the engine takes {share:.0%} of it)"
        self._kv_copies = kv_copies(setup.model, hardware.gpus)
        held = one_tier(self.size, self.hb.capacity_bytes * share, what)
        self.placement = held._replace(kv_bytes_per_token=held.kv_bytes_per_token * self._kv_copies)
        self.schedules_ahead = setup.calibration.schedules_ahead
        self._wait_s = _wait_s(setup)

    @classmethod
    def setup_of(cls, target: str, hardware: Hardware, model: Model) -> GpuSetup:
        if not isinstance(hardware, gpu.Hardware):
            raise DeviceError(f"The hardware is of the kind {hardware.kind}; allowed is {cls.kind} here.")
        calibration = _engine(hardware.calibration)
        if hardware.is_measured:
            calibration = replace(
                calibration, bandwidth_share=hardware.bandwidth_share, compute_share=hardware.compute_share
            )
        return GpuSetup(target, hardware, model, calibration)

    def touch(self, work: StepWork) -> ExpertTouch:
        """Return the experts that a pass reads, by the law of all systems: the requests are the same."""
        return touch_of(self.setup.model, work)

    def execute(self, plan: StepPlan, work: StepWork, unit: Unit) -> Execution:
        if plan.placed is not None:
            raise ValueError(NO_PLACEMENT)
        size, touch = self.size, self.touch(work)
        static = Part("static weights", unit, SPLIT, size.static_macs(work), size.static_read_bytes)
        kv = size.kv_traffic_bytes(work) * self._kv_copies
        attention = Part("attention", unit, SPLIT, size.attention_macs(work), kv)
        groups = [(static,), (attention,)]
        if touch.touched:
            read = touch.touched * size.expert_bytes
            groups.append((Part("experts", unit, SPLIT, size.expert_macs(work), read),))
        if self.setup.hardware.gpus > 1:
            groups.append((Part("all-reduce", unit, ALL_REDUCE, 0.0, link_bytes=self._summed_bytes(work)),))
        stage = Stage(TARGET, 1, tuple(groups))
        return Execution((stage._replace(wait_s=self._waited_s(work, stage)),), touch.touched, touch.hot)

    def _waited_s(self, work: StepWork, stage: Stage) -> Number:
        """Return what a pass takes beside its bytes and MACs. One that is larger than any CUDA graph is launched by the
        host, kernel by kernel: the GPU may have to wait for it."""
        launched_s = self.setup.hardware.eager_s(self.setup.model.layers)
        if not launched_s or work.tokens <= self.setup.calibration.graph_tokens:
            return self._wait_s
        biggest = largest if isinstance(work.kv_tokens, np.ndarray) else max
        return most(self._wait_s, launched_s - stage.totals(biggest).plain_s)

    def _summed_bytes(self, work: StepWork) -> float:
        """Return the bytes that a GPU sends of all partial sums: twice its share less its own, as in a ring."""
        model, gpus = self.setup.model, self.setup.hardware.gpus
        passed = 2 * (gpus - 1) / gpus * work.tokens * model.hidden_size * SUM_BYTES
        return passed * self.setup.calibration.sum_kernels * model.layers


def kv_copies(model: Model, gpus: int) -> float:
    """Return how many copies of keys and values so many GPUs hold: tensor parallelism shares out heads, and where there
    are fewer KV heads than GPUs each is on several. MLA's latents are of all heads: each GPU has them, as in vLLM."""
    heads = model.kv_heads if model.attention == GQA else 1
    return gpus / min(gpus, heads)


@lru_cache
def _engine(name: str) -> GpuCalibration:
    """Return how a serving engine uses GPUs: read once, as fits make many of them."""
    return read_calibration(GpuCalibration, name)


def _wait_s(setup: GpuSetup) -> float:
    """Return what a pass takes beyond bytes and MACs: as measured by pass and layer, or by the kernels that are
    launched."""
    hardware = setup.hardware
    if hardware.is_measured:
        return hardware.beside_s(setup.model.layers)
    return kernels(setup.model, setup.calibration, hardware.gpus) * setup.calibration.kernel_s


def _unit(setup: GpuSetup) -> Unit:
    """Return all GPUs. Joules are those of the boards, by time: what they draw to decode, and beyond that, laid on the
    MACs, up to their TDP while they compute at the rate that they reach.
    """
    hardware, calibration = setup.hardware, setup.calibration
    macs_per_s = hardware.macs_per_s * calibration.compute_share
    beyond_w = hardware.gpus * hardware.tdp_w * (1 - hardware.decode_power_share)
    return Unit(
        name="GPU" if hardware.gpus == 1 else f"{hardware.gpus} GPUs",
        macs_per_s=macs_per_s,
        hb_bytes_per_s=hardware.fast.bytes_per_s * calibration.bandwidth_share,
        ext_bytes_per_s=hardware.slow.bytes_per_s,
        link_bytes_per_s=hardware.link_bytes_per_s or NEVER_BOUND,
        j_per_mac=beyond_w * hardware.clock_share / macs_per_s,
        hb_j_per_byte=0.0,
        ext_j_per_byte=0.0,
        link_j_per_byte=0.0,
    )
