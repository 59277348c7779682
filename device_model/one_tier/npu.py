"""A model on an NPU: a roofline over its DRAM, its scratchpad and its array.

All that the array computes with passes through the scratchpad, written by DMA and read by the array. One half of it
holds the inputs of a layer, the other half weights, of which a part arrives while another one is used. So the tokens
whose inputs fit share one reading of the weights, and a longer prompt reads them again for each such block of tokens
(blocking of a matrix product that is larger than its cache: Goto and van de Geijn, ACM TOMS 34(3), 2008), and for each
but the first the keys and values before it. Instructions are compiled beforehand and queued: nothing is launched, and
no time passes between layers.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np

from device_model.arrays import Number
from device_model.device import Execution
from device_model.experts.hot_hits import touch_of
from device_model.one_tier.device import OneTierDevice
from device_model.one_tier.memory import one_tier
from device_model.roofline import TARGET, Part, Stage, Unit
from device_model.setup import Setup
from device_model.specs.hardware import Hardware
from device_model.specs.kinds import npu
from device_model.specs.spec import DeviceError, Model
from device_model.step import StepPlan
from device_model.work import StepWork

SHARED = "tokens whose inputs fit into half of the scratchpad share one reading of the weights"
STREAMED = "keys and values of each sequence pass the scratchpad once for each such block of its tokens"
NO_PLACEMENT = "The plan has experts placed by topic, and all memory of an NPU is equally fast"
VALUE_BYTES = 2  # FP16
# Into the scratchpad, and out of it.
THROUGH = 2


@dataclass(frozen=True, slots=True)
class NpuSetup(Setup):
    """A model on an NPU."""

    hardware: npu.Hardware


class NpuDevice(OneTierDevice):
    """One NPU."""

    kind = npu.KIND
    setup: NpuSetup

    def __init__(self, setup: NpuSetup) -> None:
        hardware = setup.hardware
        super().__init__(setup, hardware.idle_w, _unit(hardware))
        self.working_w = hardware.idle_w + hardware.vector_at_work_w
        self.placement = one_tier(self.size, self.hb.capacity_bytes, "NPU")

    @classmethod
    def setup_of(cls, target: str, hardware: Hardware, model: Model) -> NpuSetup:
        if not isinstance(hardware, npu.Hardware):
            raise DeviceError(f"The hardware is of the kind {hardware.kind}; allowed is {cls.kind} here.")
        return NpuSetup(target, hardware, model)

    @property
    def block_tokens(self) -> int:
        """Tokens whose inputs of a layer fit into half of the scratchpad: at least 1, for a row may be cut."""
        each = self.setup.model.hidden_size * VALUE_BYTES
        return max(1, int(self.setup.hardware.scratchpad_bytes / 2 // each))

    def execute(self, plan: StepPlan, work: StepWork, unit: Unit) -> Execution:
        if plan.placed is not None:
            raise ValueError(NO_PLACEMENT)
        # Experts by the law of all systems: the requests are the same.
        size, touch = self.size, touch_of(self.setup.model, work)
        head = size.weights.table * self.setup.model.static_bytes_per_weight
        body = size.static_read_bytes - head
        static = body * self._readings(work.tokens) + head * self._readings(work.logits)
        parts = [
            _part("static weights", unit, SHARED, size.static_macs(work), static),
            _part("attention", unit, STREAMED, size.attention_macs(work), self._kv_bytes(work)),
        ]
        if touch.touched:
            of_each = self._readings(touch.choices / touch.touched)
            read = touch.touched * size.expert_bytes * of_each
            parts.append(_part("experts", unit, SHARED, size.expert_macs(work), read))
        groups = tuple((part,) for part in parts)
        return Execution((Stage(TARGET, 1, groups),), touch.touched, touch.hot)

    def _kv_bytes(self, work: StepWork) -> Number:
        """Return the bytes of keys and values that pass the scratchpad. A prompt falls into even blocks, so that each
        but the first reads again its context and on average half of the prompt, or what its window lets it see."""
        again = np.ceil(work.new / self.block_tokens) - 1
        once = self.size.kv_traffic_bytes(work)
        if not again.any():
            return once
        seen = work.contexts() + work.new / 2
        share = self.size.windowed
        each = (1 - share) * seen + share * np.minimum(seen, self.size.window) if share else seen
        tokens: Number = (again * each).sum(axis=-1)
        return once + tokens * self.size.kv_bytes_per_token

    def _readings(self, tokens: float) -> int:
        """Return how often a matrix is read for so many tokens."""
        return ceil(tokens / self.block_tokens)


def _part(name: str, unit: Unit, why: str, macs: Number, read_bytes: Number) -> Part:
    return Part(name, unit, why, macs, read_bytes, link_bytes=THROUGH * read_bytes)


def _unit(hardware: npu.Hardware) -> Unit:
    """Return the array, with DRAM and scratchpad."""
    return Unit(
        name="NPU",
        macs_per_s=hardware.macs_per_s * hardware.compute_share,
        hb_bytes_per_s=hardware.fast.bytes_per_s,
        ext_bytes_per_s=hardware.slow.bytes_per_s,
        link_bytes_per_s=hardware.scratchpad_bytes_per_s,
        j_per_mac=hardware.j_per_mac,
        hb_j_per_byte=hardware.fast.j_per_byte,
        ext_j_per_byte=0.0,
        link_j_per_byte=hardware.scratchpad_j_per_byte,
    )
