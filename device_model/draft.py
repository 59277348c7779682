"""Draft scheme: its footprint in HB, the cost of one of its passes, and its effect on verification."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import inf
from typing import Protocol

from device_model.arrays import Number
from device_model.experts.fidelity import Analytic, CacheAsk
from device_model.experts.locality_laws import Experts
from device_model.experts.reads import ExpertReads
from device_model.experts.residency import Reads
from device_model.experts.traced_cache import PoolReads
from device_model.placement import DraftFootprint, Placement, TierBytes
from device_model.roofline import DRAFT, Part, Stage, Unit
from device_model.setup import XpuSetup
from device_model.size import ModelSize
from device_model.step import DraftShape, StepPlan
from device_model.work import StepWork

# Times the calibrated depth: beyond that the chain of acceptance would be stretched far from what was measured.
DEEPEST = 2
# Tokens of one pass: the calibrated trees have 17 at most, and beyond hundreds hardly any is ever accepted.
WIDEST = 256


class DraftDevice(Protocol):
    """What a draft scheme asks of the device that it drafts on, a `device_model.hb_xpu.tiered.TieredDevice`."""

    size: ModelSize
    experts: Experts
    placement: Placement
    expected: Analytic

    def ask(self, work: StepWork, held: TierBytes, plan: StepPlan) -> CacheAsk: ...

    def found(self, ask: CacheAsk) -> Reads: ...

    def confined(self, ask: CacheAsk) -> PoolReads: ...

    def found_by_passes(self, ask: CacheAsk) -> Reads: ...

    def carry_out(self, ask: CacheAsk) -> None: ...

    def carry_out_passes(self, ask: CacheAsk) -> None: ...

    def reads_of(self, reads: Reads, expert_bytes: float, hb_share: float = 1.0) -> ExpertReads: ...

    def static_part(self, work: StepWork, unit: Unit, read_bytes: float) -> Part: ...

    def attention_part(self, work: StepWork, held: TierBytes, unit: Unit) -> Part: ...

    def expert_group(self, work: StepWork, reads: ExpertReads, unit: Unit) -> tuple[Part, ...]: ...

    def expert_copies(self, work: StepWork) -> float: ...


class Draft(ABC):
    """A draft scheme of ELMoE-3D's comparison (7.1); subclasses, one a file in `drafts/`, are called `Scheme`."""

    published: str  # its name in Table 3
    weights_bytes: float = 0.0  # in HB, beside the target
    kv_bytes_per_token: float = 0.0  # of a KV cache of its own
    ext_bytes: float = 0.0  # in EXT, of which it caches some in HB
    drafting_experts_bytes: float = inf  # of HB, if it has all of the target's experts as the draft has them
    plain_experts_bytes: float = inf  # the same while it doesn't draft
    hb_share: float = 1.0  # what HB holds of an expert that it caches while drafts are verified
    pooled: bool = False  # whether it drafts with the target's experts in HB: fewer of these, worse drafts
    chooses: bool = False  # whether it says by itself what HB is filled with, so that nothing can be placed there
    drawn: bool = False  # whether its pool is drawn by lot

    def __init__(self, setup: XpuSetup) -> None:
        self.setup = setup

    @property
    def footprint(self) -> DraftFootprint:
        """What it keeps in memory beside the target."""
        return DraftFootprint(
            self.weights_bytes,
            self.kv_bytes_per_token,
            self.ext_bytes,
            self.drafting_experts_bytes,
            self.plain_experts_bytes,
        )

    @property
    @abstractmethod
    def shape(self) -> DraftShape:
        """The tree that Table 3 was calibrated with."""

    @property
    def deepest(self) -> int:
        """The largest depth that `shape_at` takes."""
        return DEEPEST * self.shape.depth

    def shape_at(self, depth: int, width: int | None = None, verify: int | None = None) -> DraftShape:
        """Return the tree of `depth` passes. Unless they are given it is as wide as the calibrated one, and its verify
        budget in proportion, as far as so many tokens are drafted.

        A path must fit: never fewer are verified than `depth`. Raise ValueError for a depth that is not 1 to `deepest`,
        a width over `WIDEST`, and a budget that is less or more than such a tree has.
        """
        own = self.shape
        if not 1 <= depth <= self.deepest:
            raise ValueError(f"depth is {depth}; {self.published} can draft 1 to {self.deepest} tokens ahead")
        width = own.width if width is None else width
        if width > WIDEST:
            raise ValueError(f"width is {width}; {self.published} can draft 1 to {WIDEST} tokens in a pass")
        if verify is None:
            verify = min(max(depth, round(own.verify_tokens * depth / own.depth)), max(depth, depth * width))
        elif verify > depth * width:
            raise ValueError(f"verify_tokens is {verify}; {depth} passes of {width} draft {depth * width} tokens")
        return DraftShape(depth, width, verify)

    @abstractmethod
    def stage(self, device: DraftDevice, work: StepWork, held: TierBytes, unit: Unit, plan: StepPlan) -> Stage:
        """One draft pass of `plan`: `work` has the tokens for each sequence that the pass drafts from."""

    @property
    def leaves_cache(self) -> bool:
        """Tell whether the target's experts may be cached in what is left of HB."""
        return True

    def drafted_share(self, device: DraftDevice, held: TierBytes) -> float:
        """Return the share of the target's experts that HB has room for as the draft is made with them."""
        return 1.0

    def traced_pool(self, device: DraftDevice, work: StepWork, held: TierBytes, plan: StepPlan) -> PoolReads | None:
        """Return what the draft of `plan` finds in its pool; None without one, or without routes."""
        return None

    def ask(self, device: DraftDevice, work: StepWork, held: TierBytes, plan: StepPlan) -> CacheAsk:
        """Return what verification asks of the expert cache."""
        return device.ask(work, held, plan)

    def verify_reads(self, device: DraftDevice, work: StepWork, held: TierBytes, plan: StepPlan) -> ExpertReads:
        """Return the experts that verification reads, and where it finds them."""
        reads = device.found(self.ask(device, work, held, plan))
        return device.reads_of(reads, device.size.experts_bytes, self.hb_share)

    def commit(self, device: DraftDevice, work: StepWork, held: TierBytes, plan: StepPlan) -> None:
        """Carry out what a step does to the experts in HB: `work` is what is verified."""
        device.carry_out(self.ask(device, work, held, plan))


class SeparateDraft(Draft):
    """A draft with weights of its own, apart from the target: it runs on any system."""

    attention: str = ""  # the operator that reads its KV cache, if it has one

    @property
    def shape(self) -> DraftShape:
        fitted = self.setup.speculation
        return DraftShape(fitted.draft_depth, fitted.draft_width, fitted.verify_tokens)

    @abstractmethod
    def groups(self, work: StepWork, unit: Unit) -> tuple[tuple[Part, ...], ...]:
        """Return the operators of one draft pass, as if all that they read lay in HB."""

    def stage(self, device: DraftDevice, work: StepWork, held: TierBytes, unit: Unit, plan: StepPlan) -> Stage:
        in_hb = device.placement.draft_hb_bytes / self.weights_bytes
        return self.stage_with(in_hb, held.hb_kv_bytes / (held.hb_kv_bytes + held.ext_kv_bytes), work, unit)

    def stage_with(self, in_hb: float, kv_in_hb: Number, work: StepWork, unit: Unit) -> Stage:
        """One draft pass with those shares of its weights and of its KV cache in HB, the rest in EXT."""
        shares = {self.attention: kv_in_hb}
        groups = (
            tuple(_spilt(part, shares.get(part.name, in_hb)) for part in group) for group in self.groups(work, unit)
        )
        return Stage(DRAFT, 1, tuple(groups))


def draft_passes(shape: DraftShape, work: StepWork, stage: Callable[[StepWork], Stage]) -> tuple[Stage, ...]:
    """Return all passes that draft a tree: the first from the last token of each sequence, each later one from a whole
    level of the tree, which reads the keys and values of that token and of the levels before its own. `stage` prices
    one pass over the tokens that it is given."""
    first = stage(work.drafted(1, prefill=False))
    if shape.depth == 1:
        return (first,)
    # Pass p reads 1 + (p - 2) width of them. It is linear in p, so all of 2 to depth are priced as their mean.
    earlier = work.decoding * (1 + shape.width * (shape.depth - 2) / 2)
    level = stage(work.drafted(shape.width, prefill=False)._replace(earlier=earlier))
    return (first, level._replace(repeats=shape.depth - 1))


def _spilt(part: Part, in_hb: Number) -> Part:
    if isinstance(in_hb, float) and in_hb == 1.0:
        return part
    read = part.hb_bytes
    return part._replace(hb_bytes=read * in_hb, ext_bytes=read * (1 - in_hb), why="what HB has no room for lies in EXT")
