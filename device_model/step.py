"""Step plans and step costs: the types between the scheduler and a device model."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import add
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DraftShape:
    """A tree of drafts: `depth` passes of `width` tokens a sequence, of which `verify_tokens` are verified, behind the
    sequence's last token.

    ValueError for less than 1 of anything, or a verify budget that the tree's longest path exceeds.
    """

    depth: int
    width: int
    verify_tokens: int

    def __post_init__(self) -> None:
        for name in ("depth", "width", "verify_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; a draft needs at least 1")
        if self.verify_tokens < self.depth:
            raise ValueError(f"verify_tokens is {self.verify_tokens}; allowed is at least the depth, {self.depth}")

    @property
    def target_tokens(self) -> int:
        """The tokens of a sequence in the target's pass: those that are verified, and the last one before them, which
        no pass of the target has read yet."""
        return self.verify_tokens + 1

    @property
    def tokens(self) -> int:
        """The tokens of a sequence that are drafted, or verified if these are more: there is room for the keys and
        values of each."""
        return max(self.depth * self.width, self.verify_tokens)


NO_EXPERT = -1
"""Fills up the experts of a token whose pool has fewer than top-k in a layer."""


@dataclass(frozen=True, slots=True)
class DraftRoutes:
    """The experts of each of a draft's passes, by id [tokens, layers, top_k]: those that the routers `wanted`, and if
    the draft was executed those that it computed with, `confined` to the pool in HB, `NO_EXPERT` where that has
    fewer."""

    wanted: tuple[IntArray, ...]
    confined: tuple[IntArray, ...] | None = None

    @property
    def all_wanted(self) -> IntArray:
        """The wanted experts of all passes [tokens, layers, top_k]."""
        return np.concatenate(self.wanted)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The work of one step: one shape for prefill, a chunk of it, decoding, verifying drafts, and any mix of them.

    `new_tokens` [n]: tokens that each sequence computes in this step (1 decoding; many in prefill, or a last one).
    `context` [n]: tokens that each sequence already has in the KV cache before the step.
    `draft`: what the sequences that decode draft first, and have verified in this step; None decodes plainly.
    `routes` [tokens, layers, top_k]: the expert ids of every token of the target's pass, for a device whose expert
    cache is traced; layers are those that have experts.
    `placed`: the weights of the topics that the experts in HB are placed for, for a device that knows topics,
    in the order of its table; None has them cached as they are used.
    `topics` [n]: the topic of each sequence by its index in that table, -1 if unknown; None is unknown for all. They
    make a difference where experts are placed.
    `drafts`: the experts of the draft's passes, for a device whose cache is traced and that drafts with its experts.
    `decoding`: the sequences that decode, by index; None: those that compute one token. It is said where some of these
    compute a prompt's only, or last, one.
    """

    new_tokens: IntArray
    context: IntArray
    draft: DraftShape | None = None
    routes: IntArray | None = None
    topics: IntArray | None = None
    placed: tuple[float, ...] | None = None
    drafts: DraftRoutes | None = None
    decoding: IntArray | None = None

    @property
    def decodes(self) -> BoolArray:
        """Tell of each sequence [n] whether it decodes."""
        ones: BoolArray = self.new_tokens == 1
        if self.decoding is None:
            return ones
        return ones & np.isin(np.arange(len(ones)), self.decoding)

    @staticmethod
    def of(*sequences: tuple[int, int], draft: DraftShape | None = None) -> "StepPlan":
        """Return a plan from (new tokens, context) pairs."""
        pairs = np.array(sequences, dtype=np.int64).reshape(-1, 2)
        return StepPlan(pairs[:, 0], pairs[:, 1], draft)


class Energy(NamedTuple):
    """Joules of one step, by component (ELMoE-3D, Fig. 15); `hb` is the fast memory tier and `ext` the slow one, which
    a device's `tiers` name."""

    compute_j: float
    ext_j: float
    hb_j: float
    comm_j: float
    static_j: float


class Traffic(NamedTuple):
    """Bytes that one step moves, by memory tier: the fast one, and the slow one or link. What compute within the slow
    tier reads there counts as what its bus would carry in that time: it is as busy."""

    hb_bytes: float
    ext_bytes: float


class Seconds(NamedTuple):
    """Seconds of one step, by stage: the passes of a draft, the target's own (prefill, decoding, verifying), and what
    the update of the draft's expert pool adds to it where it is not hidden."""

    draft_s: float
    target_s: float
    update_s: float


class StageEnergy(NamedTuple):
    """Joules of one step, by stage: those of a draft's passes, and those of the target's own."""

    draft_j: float
    target_j: float


class StepCost(NamedTuple):
    """What one step costs on the emulated hardware; `expert_hits` of `expert_lookups` reads were in HB, or hot.

    `hits_beyond_hb` are those that the paper's law has beyond what HB holds: among the hits under the law `published`
    only, and where there are some the laws differ (`specs.law`).
    `unpublished` is 1 for a step beyond what the paper published: of a larger batch, or another size of HB.
    """

    latency_s: float
    energy: Energy
    traffic: Traffic
    expert_lookups: float
    expert_hits: float
    seconds: Seconds
    stage_energy: StageEnergy
    hits_beyond_hb: float = 0.0
    unpublished: float = 0.0

    def plus(self, other: "StepCost") -> "StepCost":
        """Both, one after the other: every part added."""
        return StepCost(
            latency_s=self.latency_s + other.latency_s,
            energy=Energy(*map(add, self.energy, other.energy)),
            traffic=Traffic(*map(add, self.traffic, other.traffic)),
            expert_lookups=self.expert_lookups + other.expert_lookups,
            expert_hits=self.expert_hits + other.expert_hits,
            seconds=Seconds(*map(add, self.seconds, other.seconds)),
            stage_energy=StageEnergy(*map(add, self.stage_energy, other.stage_energy)),
            hits_beyond_hb=self.hits_beyond_hb + other.hits_beyond_hb,
            unpublished=self.unpublished + other.unpublished,
        )

    def times(self, share: float) -> "StepCost":
        """Return a share of the cost, or several times the cost."""
        return StepCost(
            latency_s=self.latency_s * share,
            energy=Energy(*(part * share for part in self.energy)),
            traffic=Traffic(*(part * share for part in self.traffic)),
            expert_lookups=self.expert_lookups * share,
            expert_hits=self.expert_hits * share,
            seconds=Seconds(*(part * share for part in self.seconds)),
            stage_energy=StageEnergy(*(part * share for part in self.stage_energy)),
            hits_beyond_hb=self.hits_beyond_hb * share,
            unpublished=self.unpublished * share,
        )

    @property
    def energy_j(self) -> float:
        """Joules of the whole step."""
        return sum(self.energy)

    @property
    def power_w(self) -> float:
        """Average power."""
        return self.energy_j / self.latency_s

    @property
    def power_by_stage_w(self) -> dict[str, float]:
        """Average power while drafting (if it does) and in the target's pass, with what is written into HB in it."""
        target_s = self.seconds.target_s + self.seconds.update_s
        powers = {"target": self.stage_energy.target_j / target_s}
        return (
            powers if not self.seconds.draft_s else {"draft": self.stage_energy.draft_j / self.seconds.draft_s} | powers
        )


@dataclass(frozen=True, slots=True, eq=False)
class StepCosts:
    """The costs of `k` coming steps of an unchanged batch, vectorised.

    `table` [k, 17] has in its columns the latency in seconds, the joules of `Energy` (5), the bytes of `Traffic` (2),
    lookups and hits of experts, `Seconds` (3), which add up to the latency, the joules of `StageEnergy` (2), which
    add up to the energy, and what is beyond HB, or beyond what was published. `latency_s` [k] and `energy_j` [k, 5] are
    views of it.
    """

    table: FloatArray

    def __len__(self) -> int:
        return len(self.table)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepCosts) and np.array_equal(self.table, other.table)

    __hash__ = None  # type: ignore[assignment]

    @property
    def latency_s(self) -> FloatArray:
        return self.table[:, 0]

    @property
    def energy_j(self) -> FloatArray:
        return self.table[:, 1:6]

    @property
    def first(self) -> StepCost:
        """That of the first step."""
        return _cost(self.table[0].tolist())

    def at(self, step: int) -> StepCost:
        """Return the cost of a step, counted from 0."""
        return _cost(self.table[step].tolist())

    def total(self, steps: int) -> StepCost:
        """Return the cost of the first `steps` together, one after the other."""
        return _cost(np.add.reduce(self.table[:steps], axis=0).tolist())

    def __iter__(self) -> Iterator[StepCost]:
        return map(_cost, self.table.tolist())


def _cost(row: list[float]) -> StepCost:
    latency, compute, ext, hb, comm, static, to_hb, to_ext, lookups, hits, draft, target, update, *rest = row
    draft_j, target_j, beyond, unpublished = rest
    return StepCost(
        latency,
        Energy(compute, ext, hb, comm, static),
        Traffic(to_hb, to_ext),
        lookups,
        hits,
        Seconds(draft, target, update),
        StageEnergy(draft_j, target_j),
        beyond,
        unpublished,
    )


class DeviceModel(Protocol):
    """A system of hardware and model: answers what steps would cost, and changes nothing by answering."""

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens of KV cache that the device holds beside its weights, over all tiers."""
        ...

    @property
    def max_context_tokens(self) -> int:
        """Context of the emulated model, in tokens."""
        ...

    @property
    def schedules_ahead(self) -> bool:
        """Tell whether its engine plans a step while the one before it runs."""
        ...

    @property
    def ext_bytes_per_s(self) -> float:
        """Bandwidth of the external tier when this device has it for itself, in bytes per second."""
        ...

    def probe(self, plan: StepPlan, steps: int = 1, ext_bytes_per_s: float | None = None) -> StepCosts:
        """Return the costs of `steps` consecutive steps of `plan`, each sequence's context growing by its new tokens.

        `ext_bytes_per_s` is the external bandwidth granted, all of it when None. A plan with a draft is costed one
        step at a time, as only acceptance tells by how much the contexts grow.
        """
        ...
