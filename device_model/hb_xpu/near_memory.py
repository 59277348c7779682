"""An xPU with compute in or near its LPDDR: experts and attention where their bytes are, the rest on the xPU.

ELMoE-3D says of its baselines that they process experts locally at small batches, and that as the batch grows too
little compute inside forces them onto the xPU, through the external bus (3.1, 7.2). So each of the two goes wherever it
is done sooner; or, where processors have channels of their own, is shared out between them and the xPU. Static weights
are the xPU's: shared by all tokens, they are what it is good at. Devices that share LPDDR share the compute in it, too.
"""

from dataclasses import replace
from functools import reduce
from typing import ClassVar

import numpy as np

from device_model.arrays import Number, least, most
from device_model.device import Execution
from device_model.draft import SeparateDraft, draft_passes
from device_model.experts.reads import DATA_PARALLEL, tokens_of
from device_model.hb_xpu.device import XpuDevice
from device_model.hb_xpu.tiered import NO_DRAFT
from device_model.placement import DraftFootprint, place
from device_model.roofline import NEVER_BOUND, TARGET, Part, Stage, Unit
from device_model.setup import XpuSetup
from device_model.slices import sliceable
from device_model.specs.spec import NearMemory
from device_model.specs.spec_file import SPECS, read_named
from device_model.step import StepCosts, StepPlan
from device_model.units import at_four_bits, at_width, of_weights
from device_model.work import StepWork

ON_XPU = "too many tokens for the compute near memory: the xPU is sooner done, through the external bus"
NEAR = "few tokens a byte: done where the bytes are, at the internal bandwidth"


class NearMemoryDevice(XpuDevice):
    """One of ELMoE-3D's baselines without HB; a subclass names its file in specs/near_memory."""

    drafts = ("eagle", "slm")
    own_draft = "eagle"  # as of all baselines with compute near memory (7, Accelerator Baselines)
    near_memory: ClassVar[str]
    draft: SeparateDraft | None = None

    def __init__(self, setup: XpuSetup, draft: SeparateDraft | None = None) -> None:
        super().__init__(replace(setup, hardware=setup.hardware.without_hb()))
        self.draft = draft
        self.placement = place(self.size, self.hb, self.ext, draft.footprint if draft else DraftFootprint())
        spec = read_named(NearMemory, "near-memory unit", self.near_memory, SPECS / "near_memory")
        self._near = _near_unit(self.near_memory, spec, setup)
        self._ext_share = spec.ext_share
        self._near_bytes = spec.capacity_bytes
        # Otherwise compute is in all of the memory, which holds whatever fits at all.
        self._has_channels = spec.ext_share < 1.0
        self._unit = self.unit_with(self.ext_bytes_per_s)

    def unit_with(self, ext_bytes_per_s: float) -> Unit:
        """As of any xPU, with the share of the bandwidth that compute near memory leaves it."""
        unit = super().unit_with(ext_bytes_per_s * self._ext_share)
        return unit._replace(granted_share=ext_bytes_per_s / self.ext_bytes_per_s)

    def _near_with(self, unit: Unit) -> Unit:
        """Return the compute near memory, with the share of it and its banks that `unit` was granted of their bus."""
        near, share = self._near, unit.granted_share
        return near._replace(macs_per_s=near.macs_per_s * share, ext_bytes_per_s=near.ext_bytes_per_s * share)

    def probe(self, plan: StepPlan, steps: int = 1, ext_bytes_per_s: float | None = None) -> StepCosts:
        """As of any device. Steps between which an operator moves to the xPU are costed apart."""
        if steps < 2 or self._where(plan, 0, ext_bytes_per_s) == self._where(plan, steps - 1, ext_bytes_per_s):
            return super().probe(plan, steps, ext_bytes_per_s)
        half = steps // 2
        later = replace(plan, context=plan.context + half * plan.new_tokens)
        first, rest = self.probe(plan, half, ext_bytes_per_s), self.probe(later, steps - half, ext_bytes_per_s)
        return StepCosts(np.concatenate([first.table, rest.table]))

    def _where(self, plan: StepPlan, step: int, ext_bytes_per_s: float | None) -> list[str]:
        """Return the names of the units of a step's operators."""
        grown = replace(plan, context=plan.context + step * plan.new_tokens)
        stages = self._execution(grown, 1, ext_bytes_per_s).stages
        return [part.unit.name for stage in stages for group in stage.groups for part in group]

    def execute(self, plan: StepPlan, work: StepWork, unit: Unit) -> Execution:
        if plan.placed is not None:
            raise ValueError("The plan has experts placed by topic, and the device no HB to place them in")
        if plan.draft is None or not work.decoding:
            return self._pass_of_target(work, unit)
        draft = self.draft
        if draft is None:
            raise ValueError(NO_DRAFT)
        passes = draft_passes(plan.draft, work, lambda drafting: draft.stage_with(0.0, 0.0, drafting, unit))
        target = self._pass_of_target(work.drafted(plan.draft.target_tokens, prefill=True), unit)
        return target._replace(stages=(*passes, *target.stages))

    def _pass_of_target(self, work: StepWork, unit: Unit) -> Execution:
        size, unit_of_static = self.size, of_weights(unit, self.setup.model.static_weight_bits)
        static = Part(
            "static weights", unit_of_static, DATA_PARALLEL, size.static_macs(work), ext_bytes=size.static_read_bytes
        )
        touched = self.experts.touched(tokens_of(work))
        groups = ((static,), self._attention(work, unit), self._experts(work, unit, touched))
        stage = Stage(TARGET, 1, groups)
        return Execution((stage,), touched * size.experts, 0.0)

    def _attention(self, work: StepWork, unit: Unit) -> tuple[Part, ...]:
        """Do attention near memory as far as the KV cache lies there: it has the first claim on the room."""
        size, bits = self.size, self.setup.model.kv_bits
        whole = Part("attention", at_width(unit, bits), ON_XPU, size.attention_macs(work))
        whole = whole._replace(ext_bytes=size.kv_traffic_bytes(work))
        return self._placed(
            whole, at_width(self._near_with(unit), bits), least(self._near_bytes / size.kv_held_bytes(work), 1.0)
        )

    def _experts(self, work: StepWork, unit: Unit, touched: float) -> tuple[Part, ...]:
        """Do experts near memory as far as the KV cache leaves them room.

        How many experts a step reads follows their popularity, as on all hardware; which of them lie near memory does
        not: of any that are read there is the same share. The paper does not say how NMP places experts, but ranks it
        behind PIM for the two models that it cannot hold whole (7.2), which it would lead with the popular ones.
        """
        size, bits = self.size, self.setup.model.expert_weight_bits
        near, unit = of_weights(self._near_with(unit), bits), of_weights(unit, bits)
        if not sliceable(self.setup.model):  # the xPU is the same as alone
            unit = at_four_bits(unit, self.setup.hardware)
        whole = Part("experts", unit, ON_XPU, size.expert_macs(work), ext_bytes=touched * size.experts_bytes)
        if not size.experts:
            return (whole,)
        room = self._near_bytes - least(size.kv_held_bytes(work), self._near_bytes)
        return self._placed(whole, near, least(room / size.experts_bytes, 1.0))

    def _placed(self, whole: Part, near: Unit, held: Number) -> tuple[Part, ...]:
        return _shared(whole, near, held) if self._has_channels else _near_or_not(whole, near)


def _near_or_not(whole: Part, near: Unit) -> tuple[Part, ...]:
    """Return an operator of the xPU as it is done where channels serve either the xPU or the compute inside: wherever
    it takes less time, in the first of several steps; near memory if it takes the same."""
    here = whole._replace(unit=near, why=NEAR)
    return (here,) if float(np.ravel(_seconds(here))[0]) <= float(np.ravel(_seconds(whole))[0]) else (whole,)


def _shared(whole: Part, near: Unit, held: Number) -> tuple[Part, ...]:
    """Return an operator of the xPU as it is done where processors have channels of their own, which hold the share
    `held` of its bytes: as much of that there as has both done at once, the rest by the xPU meanwhile (H2-LLM splits
    operators in this way)."""
    there_s, here_s = _seconds(whole), _seconds(whole._replace(unit=near))
    share = least(held, there_s / (there_s + here_s))
    here = whole._replace(unit=near, why=NEAR, macs=whole.macs * share, ext_bytes=whole.ext_bytes * share)
    left = 1.0 - share
    why = "what near memory has no room for, or would take longer to do"
    rest = whole._replace(name=f"other {whole.name}", why=why, macs=whole.macs * left, ext_bytes=whole.ext_bytes * left)
    return (here, rest)


def _seconds(part: Part) -> Number:
    return reduce(most, part.times())


def _near_unit(name: str, spec: NearMemory, setup: XpuSetup) -> Unit:
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
        bus_share=(1.0 - spec.ext_share or 1.0) / spec.bandwidth_multiple,  # of its own channels, or of all
    )
