"""Elastic-SD: the target drafts for itself with the 4-bit MSB slices of the experts that HB holds (ELMoE-3D, 4.2, 5.1).

Drafting: routing is throttled to the pool in HB, over batch, width and depth, so that no byte comes from EXT; all PEs
read their banks (HB, tensor parallel). Verifying: of an expert in the pool HB delivers the MSB slice while EXT streams
the LSB slice, of any other EXT streams all; the next pool is written into HB as it streams by. Experts that have 4 bits
only (MXFP4) are not sliced: the pool holds them whole.
"""

from functools import cached_property

from device_model.arrays import Number, least
from device_model.draft import Draft, DraftDevice
from device_model.experts.fidelity import CacheAsk, HeldAs
from device_model.experts.reads import TENSOR_PARALLEL, tokens_of
from device_model.experts.traced_cache import PoolReads
from device_model.placement import TierBytes
from device_model.roofline import DRAFT, Part, Stage, Unit
from device_model.setup import XpuSetup
from device_model.size import ModelSize
from device_model.slices import draft_share, sliceable, static_draft_bits
from device_model.step import DraftShape, StepPlan
from device_model.units import at_four_bits
from device_model.work import StepWork


class Scheme(Draft):
    """Plain decoding caches whole experts in the same room: with slices EXT would deliver half of every hit, and even
    if all were hits Qwen3-30B-A3B at batch 1 on 8 GB would be 3.3 times as fast as on the xPU, where Table 3 has 4.77.
    """

    published = "Elastic-SD"
    pooled = True

    def __init__(self, setup: XpuSetup) -> None:
        super().__init__(setup)
        self._sliced = sliceable(setup.model)
        self.hb_share = draft_share(setup.model)
        self.drafting_experts_bytes = ModelSize.of(setup.model).experts_bytes * self.hb_share

    @cached_property
    def shape(self) -> DraftShape:
        fitted = self.setup.speculation
        return DraftShape(fitted.elastic_depth, fitted.elastic_width, fitted.verify_tokens)

    def stage(self, device: DraftDevice, work: StepWork, held: TierBytes, unit: Unit, plan: StepPlan) -> Stage:
        sliced = at_four_bits(unit, self.setup.hardware)
        static = device.static_part(work, sliced, device.size.static_read_bytes_at(static_draft_bits(self.setup.model)))
        touched, some = self._drafted(device, work, held, plan)
        read = touched * device.size.experts_bytes * self.hb_share
        macs, copied = device.size.expert_macs(work) * some, device.expert_copies(work) * some
        experts = Part("experts in the pool", sliced, TENSOR_PARALLEL, macs, read, link_bytes=copied)
        return Stage(DRAFT, 1, ((static,), (device.attention_part(work, held, unit),), (experts,)))

    def _drafted(self, device: DraftDevice, work: StepWork, held: TierBytes, plan: StepPlan) -> tuple[Number, Number]:
        """Return the shares of all experts that a draft's pass reads, and of its experts that a token computes: a pool
        of fewer than top-k a layer gives it fewer."""
        if (traced := self.traced_pool(device, work, held, plan)) is not None:
            return traced.read, traced.computed
        pool, top = self.pool(device, held), device.experts.top_share
        return device.experts.pooled(tokens_of(work), pool), least(pool / top, 1.0) if top else 0.0

    def ask(self, device: DraftDevice, work: StepWork, held: TierBytes, plan: StepPlan) -> CacheAsk:
        asked = device.ask(work, held, plan)
        if not self._sliced:
            return asked
        return asked._replace(slices=self.pool(device, held) * device.size.experts, held_as=HeldAs.SLICES)

    def drafted_share(self, device: DraftDevice, held: TierBytes) -> float:
        return float(self.pool(device, held)) if device.size.experts else 1.0

    def traced_pool(self, device: DraftDevice, work: StepWork, held: TierBytes, plan: StepPlan) -> PoolReads | None:
        return device.confined(self.ask(device, work, held, plan)) if plan.drafts is not None else None

    def pool(self, device: DraftDevice, held: TierBytes) -> Number:
        """Return the share of all experts whose slices find room in HB."""
        return least(device.size.expert_share(held.hb_expert_bytes) / self.hb_share, 1.0)
