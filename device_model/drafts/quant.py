"""Quant-SD: a separately quantised 4-bit copy of the target drafts, sharing its KV cache (ELMoE-3D, 7.1).

All HB that is left caches the copy's experts, and none of the target's. Experts that have 4 bits already (MXFP4) need
no copy (7, Models and Datasets): the cache serves draft and target alike; nor do such static weights. The 4-bit copy of
the static weights takes no HB here: Table 3 gives GPT-OSS the same AR speedup with it as without. EXT holds both
copies, whole.
"""

from device_model.arrays import least
from device_model.draft import Draft, DraftDevice
from device_model.experts.fidelity import CacheAsk, HeldAs
from device_model.experts.locality_laws import PassTokens
from device_model.experts.reads import ExpertReads, tokens_of
from device_model.placement import TierBytes
from device_model.roofline import DRAFT, Stage, Unit
from device_model.setup import XpuSetup
from device_model.size import ModelSize
from device_model.slices import draft_share, sliceable, static_draft_bits
from device_model.step import DraftShape, StepPlan
from device_model.units import at_four_bits
from device_model.work import StepWork


class Scheme(Draft):
    """A full model at half the bits: close to the target, and costly to run."""

    published = "Quant-SD"
    chooses = True

    def __init__(self, setup: XpuSetup) -> None:
        super().__init__(setup)
        size = ModelSize.of(setup.model)
        self._experts_bytes = size.experts_bytes * draft_share(setup.model)
        copied = 0.0 if self.leaves_cache else self._experts_bytes
        self.drafting_experts_bytes = self.plain_experts_bytes = self._experts_bytes
        bits, copied_bits = setup.model.static_weight_bits, static_draft_bits(setup.model)
        self.ext_bytes = copied + (size.static_bytes * copied_bits / bits if copied_bits < bits else 0.0)

    @property
    def shape(self) -> DraftShape:
        fitted = self.setup.speculation
        return DraftShape(fitted.quant_depth, fitted.draft_width, fitted.verify_tokens)

    @property
    def leaves_cache(self) -> bool:
        return not sliceable(self.setup.model)

    def stage(self, device: DraftDevice, work: StepWork, held: TierBytes, unit: Unit, plan: StepPlan) -> Stage:
        sliced = at_four_bits(unit, self.setup.hardware)
        static = device.static_part(work, sliced, device.size.static_read_bytes_at(static_draft_bits(self.setup.model)))
        precision = sliced if sliceable(self.setup.model) else unit  # the group sees to MXFP4 itself
        reads = self._reads(device, tokens_of(work), held, plan)
        groups = (
            (static,),
            (device.attention_part(work, held, unit),),
            device.expert_group(work, reads, precision),
        )
        return Stage(DRAFT, 1, groups)

    def commit(self, device: DraftDevice, work: StepWork, held: TierBytes, plan: StepPlan) -> None:
        device.carry_out_passes(self._asked(device, tokens_of(work), held, plan))
        if self.leaves_cache:
            super().commit(device, work, held, plan)

    def _reads(self, device: DraftDevice, tokens: PassTokens, held: TierBytes, plan: StepPlan) -> ExpertReads:
        asked = self._asked(device, tokens, held, plan)
        found = device.expected.probe(asked) if plan.drafts is None else device.found_by_passes(asked)
        return device.reads_of(found, self._experts_bytes)

    def _asked(self, device: DraftDevice, tokens: PassTokens, held: TierBytes, plan: StepPlan) -> CacheAsk:
        size = device.size
        slices = least(held.hb_expert_bytes / self._experts_bytes, 1.0) * size.experts if size.experts else 0.0
        held_as = HeldAs.WHOLE if self.leaves_cache else HeldAs.COPIES
        return CacheAsk(tokens, slices, held_as, drafts=plan.drafts)
