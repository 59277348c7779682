"""The xPU under hybrid-bonded memory: static weights and KV first in HB, experts cached in what is left of it.

Each PE reads its HB bank while EXT streams in what HB lacks (ELMoE-3D, 4.1, 5.1): within a part the tiers overlap.
"""

from typing import NamedTuple

from device_model.arrays import Number
from device_model.device import NO_PLACES, Execution
from device_model.draft import Draft, draft_passes
from device_model.experts.fidelity import Analytic, CacheAsk, ExpertCache, PlacementMix
from device_model.experts.hot_pool import HotExperts, Mix
from device_model.experts.locality_laws import KNOWN
from device_model.experts.reads import DATA_PARALLEL, TENSOR_PARALLEL, ExpertReads, tokens_of
from device_model.experts.residency import BoolArray, Reads
from device_model.experts.route_map import Routers
from device_model.experts.topic_usage import TopicUsage
from device_model.experts.traced_cache import PoolReads, TracedCache
from device_model.hb_xpu.device import XpuDevice
from device_model.hb_xpu.replicas import Replicas
from device_model.placement import DraftFootprint, Placement, TierBytes, place
from device_model.roofline import TARGET, Part, Stage, Unit
from device_model.setup import XpuSetup
from device_model.slices import sliceable
from device_model.specs.spec import DeviceError
from device_model.step import DraftRoutes, DraftShape, StepCost, StepCosts, StepPlan
from device_model.stretches import Stretches
from device_model.units import at_four_bits, at_share, at_width, of_weights, without_price
from device_model.work import StepWork

# An assumption: the paper does not say how a sequence's KV lies in the banks.
KV_IN_HB = "the context is split over all banks; what HB has no room for streams from EXT (8)"
NO_DRAFT = "The plan has a draft, and the device none; load it with one to speculate"
NO_TRACE = "The plan has the routes of its draft, and the device's cache is not traced; trace it (`trace_experts`)"
NO_TOPICS = "The plan has experts placed by topic, and the device knows no topics; give it a table (`know_topics`)"


class Swap(NamedTuple):
    """What a placement asks of HB before a step: it is to hold `held` slices of experts, of which `taken_in` are not
    there yet and have so many `bytes`."""

    held: int
    taken_in: int
    bytes: float


class TieredDevice(XpuDevice):
    """A device with two tiers, and a draft scheme if it speculates."""

    placement: Placement
    cache: ExpertCache

    def __init__(self, setup: XpuSetup, draft: Draft | None = None) -> None:
        super().__init__(setup)
        self.draft = draft
        self.placement = place(self.size, self.hb, self.ext, draft.footprint if draft else DraftFootprint())
        self.expected = Analytic(self.experts, self.size.experts)
        self.cache = self.expected
        self._static: dict[tuple[float, ...], Part] = {}
        self.hot: HotExperts | None = None
        self._sliceable = sliceable(setup.model)
        self._replicas = Replicas(setup.model, setup.hardware)
        self._in_hb = self.placement.hb_static_bytes / self.size.static_bytes
        self._stretches = Stretches(super().probe)

    def probe(self, plan: StepPlan, steps: int = 1, ext_bytes_per_s: float | None = None) -> StepCosts:
        """As of any device."""
        if steps > 1 and self.cache is self.expected and self.size.sums_suffice and self._stretches.cover(plan):
            return self._stretches.probe(plan, steps, ext_bytes_per_s)
        return super().probe(plan, steps, ext_bytes_per_s)

    def execute(self, plan: StepPlan, work: StepWork, unit: Unit) -> Execution:
        held = self.held(work, plan.draft)
        if plan.draft is None or not work.decoding:
            return self.pass_of_target(work, held, self.cached_reads(work, held, plan), unit)
        draft = self._draft()
        passes = draft_passes(plan.draft, work, lambda drafting: draft.stage(self, drafting, held, unit, plan))
        verifying = work.drafted(plan.draft.target_tokens, prefill=True)
        target = self.pass_of_target(verifying, held, draft.verify_reads(self, verifying, held, plan), unit)
        return target._replace(stages=(*passes, *target.stages))

    def commit(self, plan: StepPlan) -> None:
        """Carry out what a step of `plan` does to the experts that HB holds; nothing at analytic fidelity, or to those
        that are placed."""
        if plan.placed is not None:
            return
        work = StepWork.of(plan, 1)
        if plan.draft is None or not work.decoding:
            self.carry_out(self.ask(work, self.held(work), plan))
        else:
            verifying = work.drafted(plan.draft.target_tokens, prefill=True)
            self._draft().commit(self, verifying, self.held(work, plan.draft), plan)

    def swap(self, plan: StepPlan, before: Mix | None) -> Swap:
        """Return what HB must take in until it holds what `plan` has placed, if it holds what was placed for `before`
        (None: nothing of use): to be charged as a `transfer`. What it gives up is a copy, and needs no writing back.

        The room is that of a step of `plan`. As it grows, more comes in while passes stream it by, at no charge. Raise
        ValueError for a plan that places nothing, or a mix that means nothing.
        """
        if plan.placed is None:
            raise ValueError("The plan has no experts placed; a swap needs the mix of topics that they are placed for")
        ask = self._asked(plan)
        room = min(int(ask.slices), self.size.experts)
        taken_in = self._hot().brought_in(before, plan.placed, room)
        share = self._draft().hb_share if ask.pool else 1.0
        return Swap(room, taken_in, taken_in * self.size.expert_bytes * share)

    def know_topics(self, usage: TopicUsage) -> None:
        model = self.setup.model
        if not self.hb.capacity_bytes or not model.experts:
            raise DeviceError(NO_PLACES)
        if self.draft is not None and self.draft.chooses:
            raise DeviceError(
                f"{self.draft.published} fills HB as it needs it; experts can't be placed by topic beside it."
            )
        self.hot = HotExperts(usage, Routers(model.expert_layers, model.experts, model.top_k))
        self.forget()

    def swap_cost(self, plan: StepPlan, before: Mix | None, ext_bytes_per_s: float | None = None) -> StepCost:
        return self.transfer(self.swap(plan, before).bytes, 0.0, ext_bytes_per_s)

    def _asked(self, plan: StepPlan) -> CacheAsk:
        """Return what the target's pass of a step of `plan` asks of the expert cache."""
        work = StepWork.of(plan, 1)
        if plan.draft is None or not work.decoding:
            return self.ask(work, self.held(work), plan)
        verifying = work.drafted(plan.draft.target_tokens, prefill=True)
        return self._draft().ask(self, verifying, self.held(work, plan.draft), plan)

    def _draft(self) -> Draft:
        if self.draft is None:
            raise ValueError(NO_DRAFT)
        return self.draft

    def _hot(self) -> HotExperts:
        if self.hot is None:
            raise ValueError(NO_TOPICS)
        return self.hot

    def held(self, work: StepWork, tree: DraftShape | None = None) -> TierBytes:
        """Return what lies where while `work` is done, and a `tree` is drafted and verified for each sequence that
        decodes: the KV cache takes room from the experts as it grows (8), and so do keys and values of drafted tokens,
        in that of the target if a draft has none of its own."""
        kv = self.size.kv_held_bytes(work)
        if self.draft is not None:
            own = self.draft.kv_bytes_per_token
            kv = kv + own * work.kv_tokens
            if tree is not None:
                in_target = tree.verify_tokens if own else tree.tokens
                kv = kv + work.decoding * (own * tree.tokens + self.size.kv_bytes_per_token * in_target)
        return self.placement.at(kv)

    def ask(self, work: StepWork, held: TierBytes, plan: StepPlan) -> CacheAsk:
        """About whole experts in all of HB that is left; in nothing if the draft has that room."""
        free = self.draft is None or self.draft.leaves_cache
        slices = held.hb_expert_bytes / self.size.expert_bytes if free and self.size.experts else 0.0
        placed = None if plan.placed is None else self._placed(work, plan, plan.placed)
        return CacheAsk(tokens_of(work), slices, routes=plan.routes, drafts=self._drafts(plan), placed=placed)

    def _drafts(self, plan: StepPlan) -> DraftRoutes | None:
        """Return a draft's routes if they say what is hot: those of a draft with experts of the target."""
        return plan.drafts if self.draft is not None and self.draft.pooled else None

    def _placed(self, work: StepWork, plan: StepPlan, mix: Mix) -> PlacementMix:
        """As the law of routing has it, a sequence that decodes chooses as less than one token, and drafts as few."""
        tokens = tokens_of(work)
        decoding = self.experts.choices(tokens) - tokens.prefill
        return PlacementMix(mix, self._hot().tokens(plan, decoding / tokens.sequences if tokens.sequences else 0.0))

    def found(self, ask: CacheAsk) -> Reads:
        """Return what a pass finds in HB: of what was cached there, or placed."""
        if ask.placed is None:
            return self.cache.probe(ask)
        return self._hot().probe(ask, self.experts.touched(ask.tokens) * self.size.experts)

    def pool(self, plan: StepPlan) -> BoolArray | None:
        """Return the experts [layers, experts] that HB holds for the draft of a step of `plan`; None if it is not
        confined to any. Raise ValueError without a draft, or unless the cache is traced."""
        draft, work = self._draft(), StepWork.of(plan, 1)
        return self._traced().pool(draft.ask(self, work, self.held(work, plan.draft), plan)) if draft.pooled else None

    def confined(self, ask: CacheAsk) -> PoolReads:
        """Return what a draft's passes read of its pool. Raise ValueError unless the cache is traced."""
        return self._traced().confined(ask)

    def found_by_passes(self, ask: CacheAsk) -> Reads:
        """Return what a draft's passes find of the copies that HB holds, on average. Raise ValueError unless the cache
        is traced."""
        return self._traced().probe_passes(ask)

    def carry_out(self, ask: CacheAsk) -> None:
        """Have HB hold what a pass leaves there."""
        self.cache.commit(ask)

    def carry_out_passes(self, ask: CacheAsk) -> None:
        """Have HB hold what a draft's passes leave there."""
        if ask.drafts is not None:
            self._traced().commit_passes(ask)

    def _traced(self) -> TracedCache:
        if not isinstance(self.cache, TracedCache):
            raise ValueError(NO_TRACE)
        return self.cache

    def cached_reads(self, work: StepWork, held: TierBytes, plan: StepPlan) -> ExpertReads:
        """Return the reads of whole experts, cached by LRU or placed."""
        return self.reads_of(self.found(self.ask(work, held, plan)), self.size.experts_bytes)

    def reads_of(self, reads: Reads, expert_bytes: float, hb_share: float = 1.0) -> ExpertReads:
        """Return what a cache answers, as shares of all experts."""
        experts = self.size.experts
        if not experts:
            return ExpertReads(0.0, 0.0, 0.0, expert_bytes, hb_share)
        hits = reads.hits / reads.touched
        written = reads.written / experts
        return ExpertReads(reads.touched / experts, hits, written, expert_bytes, hb_share, reads.beyond_hb)

    def pass_of_target(self, work: StepWork, held: TierBytes, reads: ExpertReads, unit: Unit) -> Execution:
        """One forward pass of the target: prefill, decoding or verifying."""
        model = self.setup.model
        static = self.static_part(work, of_weights(unit, model.static_weight_bits), self.size.static_read_bytes)
        experts = self.expert_group(work, reads, of_weights(unit, model.expert_weight_bits))
        groups = ((static,), (self.attention_part(work, held, unit),), experts)
        lookups = float(reads.touched) * self.size.experts
        return Execution((Stage(TARGET, 1, groups),), lookups, lookups * reads.hits, reads.beyond_hb)

    def static_part(self, work: StepWork, unit: Unit, read_bytes: float) -> Part:
        """Projections, shared experts, dense MLPs, router and LM head, with `read_bytes` of weights."""
        # The same for as long as a batch decodes, whatever its context.
        key = (work.tokens, work.logits, read_bytes, unit.macs_per_s, unit.ext_bytes_per_s)
        part = self._static.get(key)
        if part is None:
            if len(self._static) >= KNOWN:
                self._static.clear()
            part = self._static[key] = self._new_static_part(work, unit, read_bytes)
        return part

    def _new_static_part(self, work: StepWork, unit: Unit, read_bytes: float) -> Part:
        in_hb = read_bytes * self._in_hb
        why = TENSOR_PARALLEL if self._in_hb else DATA_PARALLEL
        busy = unit if self._in_hb else at_share(unit, work.tokens / self.setup.hardware.pe_count)
        macs, copied = self.size.static_macs(work), self._replicas.of_static(work) * self._in_hb
        return Part("static weights", busy, why, macs, in_hb, read_bytes - in_hb, link_bytes=copied)

    def attention_part(self, work: StepWork, held: TierBytes, unit: Unit) -> Part:
        """Keys and values are read, and written, where they lie. Queries and weights have as many bits as they."""
        moved = self.size.kv_traffic_bytes(work)
        hb_bytes = moved * (held.hb_kv_bytes / (held.hb_kv_bytes + held.ext_kv_bytes))
        why = KV_IN_HB if self.setup.hardware.hb_capacity_gib else DATA_PARALLEL
        unit = at_width(unit, self.setup.model.kv_bits)
        return Part("attention", unit, why, self.size.attention_macs(work), hb_bytes, moved - hb_bytes)

    def expert_group(self, work: StepWork, reads: ExpertReads, unit: Unit) -> tuple[Part, ...]:
        """Routed experts: hits from HB and the rest from EXT, at once.

        Missed experts are written into HB as they stream by (4.2, Expert Pool Update; Algorithm 1, line 30): no more
        of them than it holds, as the rest of one step would only evict each other.
        """
        if not self._sliceable:
            unit = at_four_bits(unit, self.setup.hardware)
        macs = self.size.expert_macs(work)
        written = reads.written * reads.expert_bytes * reads.hb_share
        psums = self._psum_bytes(work, reads) if reads.hb_share < 1.0 else 0.0
        # The PEs compute for both at once. What streams in keeps only as many of them busy as it has tokens; its joules
        # are counted with the rest.
        share = self._tokens_an_expert(work, reads) / self.setup.hardware.pe_count
        busy = at_share(unit, share)
        streamed_macs = macs * (1.0 - reads.hits)
        if not self.setup.hardware.hb_capacity_gib:
            return (Part("experts", busy, DATA_PARALLEL, streamed_macs, ext_bytes=reads.ext_bytes),)
        busy = without_price(busy)
        streamed = Part("experts from EXT", busy, DATA_PARALLEL, streamed_macs, ext_bytes=reads.ext_bytes)
        linked = psums + self.expert_copies(work) * reads.hits
        from_hb = Part("experts", unit, TENSOR_PARALLEL, macs, reads.hb_bytes, 0.0, written, linked)
        return (from_hb, streamed)

    def expert_copies(self, work: StepWork) -> float:
        """Return the bytes of activations that PEs exchange if HB serves all experts of `work`."""
        return self._replicas.of_experts(work)

    def _tokens_an_expert(self, work: StepWork, reads: ExpertReads) -> float:
        read = float(reads.touched) * self.size.experts_per_layer
        return work.tokens * self.size.top_k / read if read else 1.0

    def _psum_bytes(self, work: StepWork, reads: ExpertReads) -> Number:
        """Return the bytes that MSB and LSB slices exchange (5.2): of each token and hit expert, INT32 PSUMs of up,
        gate and down are gathered, and INT8 inputs of the next projection scattered."""
        model = self.setup.model
        gathered = 4 * (2 * model.expert_intermediate_size + model.hidden_size)
        scattered = model.expert_intermediate_size + model.hidden_size
        pairs = work.tokens * model.top_k * model.expert_layers
        return pairs * reads.hits * (gathered + scattered)


def refuse_draft(system: str, draft: str, allowed: tuple[str, ...]) -> DeviceError:
    """Return the error for whoever asks a system for a draft scheme that it can't run."""
    can = f"those it can are {', '.join(allowed)}" if allowed else "it has none"
    return DeviceError(f"The system {system!r} can't run the draft scheme {draft!r}; {can}.")
