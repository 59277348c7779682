"""Roofline device: the common part of all systems, which prices the stages of a step by time and by energy. A system
names its stages."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from device_model.arrays import Number, largest
from device_model.draft import Draft
from device_model.experts.fidelity import ExpertCache
from device_model.experts.topic_usage import TopicUsage
from device_model.placement import Memory
from device_model.roofline import DRAFT, TRANSFER, Part, Stage, Unit
from device_model.setup import Setup
from device_model.size import ModelSize
from device_model.specs.hardware import Hardware
from device_model.specs.spec import DeviceError, Model
from device_model.step import FloatArray, StepCost, StepCosts, StepPlan
from device_model.work import StepWork

NO_PLACES = "Only systems with HB, serving a model with experts, or with tiers of rows can have these placed by topic."
NO_CACHE = "The device keeps no experts by their use; a step changes nothing that could be carried out"
ACROSS = "from one tier into the other, over the streamline"
# Answers that are remembered: a scheduler asks the same again when it weighs modes, and sweeps do all the time.
KNOWN = 1024


class Execution(NamedTuple):
    """How a system carries out `k` steps: its stages, and the expert reads, of which HB serves `expert_hits`.

    A read is one expert of one layer, once a pass of the target however many tokens share it. `hits_beyond_hb` are
    as in `StepCost`; `unpublished` tells whether the step is beyond what the system's paper
    published.
    """

    stages: tuple[Stage, ...]
    expert_lookups: float
    expert_hits: Number
    hits_beyond_hb: Number = 0.0
    unpublished: bool = False


class RooflineDevice(ABC):
    """A `DeviceModel` that serves a model on hardware; subclasses, one a file in `systems/`, are called `Device`.

    `hb` is the fast tier of its hardware and `ext` the slow one, as ELMoE-3D has them; `tiers` says what they are
    called. A tier without capacity holds nothing: it is a link.
    """

    kind: ClassVar[str]  # of the hardware that it runs on
    hits_are: ClassVar[str] = "from HB"  # what the hits among its expert reads are
    # Whether experts have places of their own, by what topics use, and trade them for each batch of another mix
    # (Stratum, 3.1), rather than having copies in a cache.
    places_experts: ClassVar[bool] = False
    # Whether its engine plans a step while the one before it runs, so that a request that comes waits for one more.
    schedules_ahead: bool = False
    # The draft schemes that a system can run, by the names of their files in `drafts/`, and the one that it speculates
    # with in its paper, if it does.
    drafts: tuple[str, ...] = ()
    own_draft: ClassVar[str | None] = None
    placement: Memory
    draft: Draft | None = None  # what it speculates with, if it does
    cache: ExpertCache | None = None  # what the fast memory keeps of the experts, if that changes with their use

    def __init__(self, setup: Setup, static_w: float, unit: Unit) -> None:
        """`static_w`: watts drawn whatever it does; `unit`: what computes, with all of the slow tier's bandwidth."""
        model, hardware = setup.model, setup.hardware
        self.setup = setup
        self.max_context_tokens = model.max_context_tokens
        self.size = ModelSize.of(model)
        self.tiers = hardware.tiers
        self.hb, self.ext = hardware.fast, hardware.slow
        self._known: dict[Hashable, StepCosts] = {}
        self.static_w = static_w
        self.working_w = static_w  # drawn by a step, whatever it does
        self._unit = unit

    @classmethod
    def setup_of(cls, target: str, hardware: Hardware, model: Model) -> Setup:
        """Return what devices of this system are made from, calibrations of its kind included. Raise DeviceError if
        `hardware` is of another kind than it runs on."""
        return Setup(target, hardware, model)

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens of KV cache that the device holds beside its weights, over all tiers."""
        return self.placement.kv_capacity_tokens

    @property
    def kv_capacity_in_hb_tokens(self) -> int:
        """Those of them that HB takes beside static weights, with no expert cached; the others spill to EXT."""
        return self.placement.kv_tokens_in_hb

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of KV cache of a token, that of a draft with it; of a model with sliding windows at most so many."""
        return self.placement.kv_bytes_per_token

    def kv_capacity_among(self, sharers: int) -> int:
        """`kv_capacity_tokens` if as many devices like this one share its external tier. ValueError for less than 1."""
        return self.placement.kv_tokens_among(sharers)

    @property
    def ext_bytes_per_s(self) -> float:
        """Sustained bandwidth of the external tier when this device has it for itself, in bytes per second."""
        return self.ext.bytes_per_s

    def probe(self, plan: StepPlan, steps: int = 1, ext_bytes_per_s: float | None = None) -> StepCosts:
        """Return the costs of `steps` consecutive steps of `plan`, each sequence's context growing by its new tokens.

        `ext_bytes_per_s` is the external bandwidth granted, all of it when None. The sequences of the plan are taken
        for all that the KV cache holds, and steps past the context limit or the KV capacity are priced like any other:
        admission is the scheduler's. Raise ValueError for a plan, a number of steps or a bandwidth that means nothing.
        """
        key: Hashable = None
        if plan.routes is None and plan.drafts is None:  # else the answer depends on what HB holds
            key = (plan.new_tokens.tobytes(), plan.context.tobytes(), plan.draft, steps, ext_bytes_per_s)
            if plan.decoding is not None:
                key = (key, plan.decoding.tobytes())
            if plan.placed is not None or plan.topics is not None:
                key = (key, plan.placed, None if plan.topics is None else plan.topics.tobytes())
            if (known := self._known.get(key)) is not None:
                return known
        costs = _costs(self._execution(plan, steps, ext_bytes_per_s), steps, self.working_w)
        if key is not None:
            self._known[key] = costs
            if len(self._known) > KNOWN:
                del self._known[next(iter(self._known))]
        return costs

    def transfer(self, to_hb_bytes: float, to_ext_bytes: float, ext_bytes_per_s: float | None = None) -> StepCost:
        """Return what it costs to move bytes from EXT to HB, and from HB to EXT, while nothing computes.

        Both tiers work at once, each at its bandwidth for reads and writes alike, and a write takes the joules of a
        read (`roofline.Stage`); all of it crosses the die on the streamline. Raise ValueError for bytes below 0, for a
        bandwidth that means nothing, and where there is no HB.
        """
        if not (to_hb_bytes >= 0 and to_ext_bytes >= 0):
            raise ValueError(f"{to_hb_bytes} bytes to HB and {to_ext_bytes} to EXT; what moves is 0 or more")
        moved = to_hb_bytes + to_ext_bytes
        if moved and not self.hb.capacity_bytes:
            raise ValueError("The device has no HB; nothing moves between its tiers")
        part = Part("transfer", self._unit_with(ext_bytes_per_s), ACROSS, 0.0, moved, moved)
        return next(iter(_costs(Execution((Stage(TRANSFER, 1, ((part,),)),), 0.0, 0.0), 1, self.working_w)))

    def know_topics(self, usage: TopicUsage) -> None:
        """Let plans say by topic which experts the fast memory holds: its experts are used as `usage` has it.

        DeviceError for a system or a model that has no experts there, or a draft that says by itself what lies there.
        """
        raise DeviceError(NO_PLACES)

    def swap_cost(
        self, plan: StepPlan, before: tuple[float, ...] | None, ext_bytes_per_s: float | None = None
    ) -> StepCost:
        """Return what it costs to place the experts of `plan` where those for the mix of topics `before` are (None:
        nothing of use), while nothing computes. Raise ValueError for a plan that places nothing, a mix that means
        nothing, or a device that knows no topics."""
        raise ValueError(NO_PLACES)

    def forget(self) -> None:
        """Answer anew what was answered before: the device has changed."""
        self._known.clear()

    def commit(self, plan: StepPlan) -> None:
        """Carry out what a step of `plan` does to the experts in `cache`. Raise ValueError for a device without one."""
        raise ValueError(NO_CACHE)

    def explain(self, plan: StepPlan) -> tuple[Stage, ...]:
        """Return the stages of one step of `plan`, with their operators: what runs where, why, and what bounds it."""
        return self._execution(plan, 1, None).stages

    def _execution(self, plan: StepPlan, steps: int, ext_bytes_per_s: float | None) -> Execution:
        unit = self._unit_with(ext_bytes_per_s)
        if plan.draft is not None and steps != 1:
            raise ValueError(f"steps is {steps}; a plan with a draft is costed one step at a time")
        work = StepWork.of(plan, steps)
        return self.execute(plan, work, unit)._replace(unpublished=bool(self.beyond_published(work)))

    def beyond_published(self, work: StepWork) -> str:
        """Return, in a few words, in what `work` is beyond what the system's paper published; "" where it is not, or
        where the paper published no law of it."""
        return ""

    @property
    def unmeasured(self) -> str:
        """What the device assumes of its model because nobody has measured it, in a few words; "" for nothing."""
        return ""

    def _unit_with(self, ext_bytes_per_s: float | None) -> Unit:
        """Return the unit with the external bandwidth granted. Raise ValueError for a bandwidth that means nothing."""
        granted = self.ext_bytes_per_s if ext_bytes_per_s is None else ext_bytes_per_s
        if not granted > 0:
            raise ValueError(f"ext_bytes_per_s is {granted}; a probe needs a bandwidth above 0")
        return self._unit if granted == self.ext_bytes_per_s else self.unit_with(granted)

    @abstractmethod
    def unit_with(self, ext_bytes_per_s: float) -> Unit:
        """Return the unit that computes, with so much of the slow tier's bandwidth granted."""

    @abstractmethod
    def execute(self, plan: StepPlan, work: StepWork, unit: Unit) -> Execution:
        """Which part of `work` computes and reads what from where; `unit` computes, with the bandwidth granted."""


def _costs(execution: Execution, steps: int, static_w: float) -> StepCosts:
    biggest = max if steps == 1 else largest
    draft_s = target_s = update_s = draft_j = own_j = 0.0  # type: Number
    sums: Sequence[Number] = [0.0] * 6
    for stage in execution.stages:
        plain_s, exposed_s, *rest = stage.totals(biggest)
        if stage.name == DRAFT:
            draft_s, draft_j = draft_s + plain_s, draft_j + sum(rest[:4]) + plain_s * static_w
        else:
            target_s = target_s + plain_s
        update_s = update_s + exposed_s
        if stage.own_w:
            own_j = own_j + (plain_s + exposed_s) * stage.own_w
        sums = rest if stage is execution.stages[0] else [total + more for total, more in zip(sums, rest, strict=True)]
    latency = draft_s + target_s + update_s
    compute_j, ext_j, hb_j, comm_j, hb_bytes, ext_bytes = sums
    static_j = latency * static_w + own_j
    target_j = compute_j + ext_j + hb_j + comm_j + static_j - draft_j
    # One table: to make seven small arrays takes longer than all the arithmetic.
    table = _table(
        steps,
        (
            *(latency, compute_j, ext_j, hb_j, comm_j, static_j, hb_bytes, ext_bytes),
            *(execution.expert_lookups, execution.expert_hits, draft_s, target_s, update_s, draft_j, target_j),
            *(execution.hits_beyond_hb, float(execution.unpublished)),
        ),
    )
    table.flags.writeable = False  # an answer may be given more than once
    return StepCosts(table)


def _table(steps: int, columns: tuple[Number, ...]) -> FloatArray:
    """Return the columns side by side [steps, n]; a plain number is the same in every step."""
    if steps == 1:
        return np.array([columns])
    table = np.empty((steps, len(columns)))
    for index, column in enumerate(columns):
        table[:, index] = column
    return table
