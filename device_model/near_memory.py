"""An xPU with compute in or near its LPDDR: experts and attention where their bytes are, the rest on the xPU.

ELMoE-3D says of its baselines that they process experts locally at small batches, and that as the batch grows too
little compute inside forces them onto the xPU, through the external bus (3.1, 7.2). So each of the two goes wherever it
is done sooner. Static weights are the xPU's: shared by all tokens, they are what it is good at.
"""

from typing import ClassVar

import numpy as np

from device_model.arrays import Number
from device_model.device import DRAFT, TARGET, Execution, RooflineDevice
from device_model.draft import SeparateDraft
from device_model.placement import place
from device_model.roofline import NEVER_BOUND, Part, Stage, Unit
from device_model.setup import Setup
from device_model.spec import NearMemory
from device_model.spec_file import SPECS, read_named
from device_model.step import StepPlan
from device_model.tiered import DATA_PARALLEL, tokens_of
from device_model.units import XPU
from device_model.work import StepWork

ON_XPU = "too many tokens for the compute near memory: the xPU is sooner done, through the external bus"
NEAR = "few tokens a byte: done where the bytes are, at the internal bandwidth"


class NearMemoryDevice(RooflineDevice):
    """One of ELMoE-3D's baselines without HB; a subclass names its file in specs/near_memory."""

    drafts = ("eagle", "slm")
    near_memory: ClassVar[str]

    def __init__(self, setup: Setup, draft: SeparateDraft | None = None) -> None:
        super().__init__(setup)
        self.draft = draft
        self.placement = place(
            self.size, setup.hardware.without_hb().hb, self.ext, draft.weights_bytes if draft else 0.0
        )
        spec = read_named(NearMemory, "near-memory unit", self.near_memory, SPECS / "near_memory")
        self._near = _near_unit(self.near_memory, spec, setup)
        self._ext_share = spec.ext_share
        self._resident = min(1.0, spec.capacity_bytes / self.size.experts_bytes) if self.size.experts else 0.0

    def execute(self, plan: StepPlan, work: StepWork, unit: Unit) -> Execution:
        unit = unit._replace(ext_bytes_per_s=unit.ext_bytes_per_s * self._ext_share)
        if plan.draft is None or self.draft is None or not work.decoding:
            return self._pass_of_target(work, unit)
        drafting = work.drafted(plan.draft.width, prefill=False)
        target = self._pass_of_target(work.drafted(plan.draft.verify_tokens, prefill=True), unit)
        parts = tuple((_from_ext(part),) for group in self.draft.groups(drafting, unit) for part in group)
        return target._replace(stages=(Stage(DRAFT, plan.draft.depth, parts), *target.stages))

    def _pass_of_target(self, work: StepWork, unit: Unit) -> Execution:
        size = self.size
        static = Part("static weights", unit, DATA_PARALLEL, size.static_macs(work), ext_bytes=size.static_read_bytes)
        kv = self._sooner("attention", unit, size.attention_macs(work), size.kv_traffic_bytes(work))
        touched = self.experts.touched(tokens_of(work))
        stage = Stage(TARGET, 1, ((static,), (kv,), self._experts(work, unit, touched)))
        return Execution((stage,), touched * size.experts, 0.0)

    def _experts(self, work: StepWork, unit: Unit, touched: float) -> tuple[Part, ...]:
        """Those that lie near memory wherever that is sooner done, and the others on the xPU meanwhile."""
        macs, read = self.size.expert_macs(work), touched * self.size.experts_bytes
        near = self._sooner("experts", unit, macs * self._resident, read * self._resident)
        if self._resident >= 1.0:
            return (near,)
        rest = 1.0 - self._resident
        if near.unit.name == XPU:
            return (Part("experts", unit, ON_XPU, macs, ext_bytes=read),)
        why = "no room for them near memory"
        return (near, Part("other experts", unit, why, macs * rest, ext_bytes=read * rest))

    def _sooner(self, name: str, unit: Unit, macs: Number, read: Number) -> Part:
        near = Part(name, self._near, NEAR, macs, ext_bytes=read)
        xpu = Part(name, unit, ON_XPU, macs, ext_bytes=read)
        return near if _slowest(near) <= _slowest(xpu) else xpu


def _slowest(part: Part) -> float:
    """Seconds, in the first of several steps."""
    return max(float(np.ravel(time)[0]) for time in part.times())


def _from_ext(part: Part) -> Part:
    """A part of a draft, whose weights lie in EXT where there is no HB."""
    return part._replace(hb_bytes=0.0, ext_bytes=part.hb_bytes + part.ext_bytes, why="the draft lies in LPDDR")


def _near_unit(name: str, spec: NearMemory, setup: Setup) -> Unit:
    return Unit(
        name=name,
        macs_per_s=spec.macs_per_s,
        hb_bytes_per_s=NEVER_BOUND,
        ext_bytes_per_s=setup.hardware.ext.bytes_per_s * spec.bandwidth_multiple,
        link_bytes_per_s=NEVER_BOUND,
        j_per_mac=spec.j_per_mac,
        hb_j_per_byte=0.0,
        ext_j_per_byte=spec.read_j_per_byte,
        link_j_per_byte=0.0,
        streamed=0.0,
    )
