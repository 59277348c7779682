"""What all systems share: the stages of a step priced by roofline and by energy. A system says what its stages are."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from device_model.arrays import Number, largest
from device_model.experts import Experts
from device_model.placement import Placement
from device_model.roofline import Stage, Unit
from device_model.setup import Setup
from device_model.size import ModelSize
from device_model.step import FloatArray, StepCosts, StepPlan
from device_model.units import with_ext, xpu_unit
from device_model.work import StepWork

if TYPE_CHECKING:
    from device_model.draft import Draft

DRAFT, TARGET = "draft", "target"
# Answers that are remembered: a scheduler asks the same again when it weighs modes, and sweeps do all the time.
KNOWN = 1024


class Execution(NamedTuple):
    """How a system carries out `k` steps: its stages, and the expert reads, of which HB serves `expert_hits`.

    A read is one expert of one layer, once a pass of the target however many tokens share it.
    """

    stages: tuple[Stage, ...]
    expert_lookups: float
    expert_hits: Number


class RooflineDevice(ABC):
    """A `DeviceModel` that serves a model on hardware; subclasses, one a file in `systems/`, are called `Device`."""

    # The draft schemes that a system can run, by the names of their files in `drafts/`; the first is its own.
    drafts: tuple[str, ...] = ()
    placement: Placement
    draft: "Draft | None" = None  # what it speculates with, if it does

    def __init__(self, setup: Setup) -> None:
        model, hardware = setup.model, setup.hardware
        self.setup = setup
        self.max_context_tokens = model.max_context_tokens
        self.size = ModelSize.of(model)
        self.experts = Experts(model.experts, model.top_k, setup.locality, setup.speculation)
        self.hb, self.ext = hardware.hb, hardware.ext
        self._known: dict[Hashable, StepCosts] = {}
        self._static_w = setup.estimate.static_w(hardware)
        self._unit = xpu_unit(hardware, setup.estimate, self.ext.bytes_per_s)

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens of KV cache that the device holds beside its weights, over all tiers."""
        return self.placement.kv_capacity_tokens

    def kv_capacity(self, sharers: int = 1) -> int:
        """The same where `sharers` devices, this one included, have the external tier and one copy of the weights there
        between them."""
        placement = self.placement
        weights = placement.ext_static_bytes + placement.expert_bytes + placement.draft_ext_bytes
        others = (placement.ext_capacity_bytes - weights) * (1 - 1 / sharers)
        return int(self.kv_capacity_tokens - others // placement.kv_bytes_per_token)

    @property
    def ext_bytes_per_s(self) -> float:
        """Sustained bandwidth of the external tier when this device has it for itself, in bytes per second."""
        return self.ext.bytes_per_s

    def probe(self, plan: StepPlan, steps: int = 1, ext_bytes_per_s: float | None = None) -> StepCosts:
        """The costs of `steps` consecutive steps of `plan`, each sequence's context growing by its new tokens.

        `ext_bytes_per_s` is the external bandwidth granted, all of it when None. The sequences of the plan are taken
        for all that the KV cache holds, and steps past the context limit or the KV capacity are priced like any other:
        admission is the scheduler's. ValueError for a plan, a number of steps or a bandwidth that means nothing.
        """
        key = None
        if plan.routes is None:  # else the answer depends on what HB holds
            key = (plan.new_tokens.tobytes(), plan.context.tobytes(), plan.draft, steps, ext_bytes_per_s)
            if (known := self._known.get(key)) is not None:
                return known
        costs = _costs(self._execution(plan, steps, ext_bytes_per_s), steps, self._static_w)
        if key is not None:
            self._known[key] = costs
            if len(self._known) > KNOWN:
                del self._known[next(iter(self._known))]
        return costs

    def explain(self, plan: StepPlan) -> tuple[Stage, ...]:
        """The stages of one step of `plan`, with their operators: what runs where, why, and what bounds it."""
        return self._execution(plan, 1, None).stages

    def _execution(self, plan: StepPlan, steps: int, ext_bytes_per_s: float | None) -> Execution:
        granted = self.ext_bytes_per_s if ext_bytes_per_s is None else ext_bytes_per_s
        if not granted > 0:
            raise ValueError(f"ext_bytes_per_s is {granted}; a probe needs a bandwidth above 0")
        if plan.draft is not None and steps != 1:
            raise ValueError(f"steps is {steps}; a plan with a draft is costed one step at a time")
        unit = self._unit if granted == self.ext_bytes_per_s else with_ext(self._unit, self.setup.hardware, granted)
        return self.execute(plan, StepWork.of(plan, steps), unit)

    @abstractmethod
    def execute(self, plan: StepPlan, work: StepWork, unit: Unit) -> Execution:
        """Which part of `work` computes and reads what from where; `unit` is the xPU, with the bandwidth granted."""


def _costs(execution: Execution, steps: int, static_w: float) -> StepCosts:
    biggest = max if steps == 1 else largest
    draft_s = target_s = update_s = draft_j = 0.0  # type: Number
    sums: Sequence[Number] = [0.0] * 6
    for stage in execution.stages:
        plain_s, exposed_s, *rest = stage.totals(biggest)
        if stage.name == DRAFT:
            draft_s, draft_j = plain_s, sum(rest[:4]) + plain_s * static_w
        else:
            target_s = target_s + plain_s
        update_s = update_s + exposed_s
        sums = rest if stage is execution.stages[0] else [total + more for total, more in zip(sums, rest, strict=True)]
    latency = draft_s + target_s + update_s
    compute_j, ext_j, hb_j, comm_j, hb_bytes, ext_bytes = sums
    target_j = compute_j + ext_j + hb_j + comm_j + latency * static_w - draft_j
    # One table, and views of it: to make six small arrays takes longer than all the arithmetic.
    table = _table(
        steps,
        (
            *(latency, compute_j, ext_j, hb_j, comm_j, latency * static_w, hb_bytes, ext_bytes),
            *(execution.expert_lookups, execution.expert_hits, draft_s, target_s, update_s, draft_j, target_j),
        ),
    )
    table.flags.writeable = False  # an answer may be given more than once
    columns = (table[:, 0], table[:, 1:6], table[:, 6:8], table[:, 8], table[:, 9], table[:, 10:13], table[:, 13:15])
    return StepCosts(*columns)


def _table(steps: int, columns: tuple[Number, ...]) -> FloatArray:
    """The columns side by side [steps, n]; a plain number is the same in every step."""
    if steps == 1:
        return np.array([columns])
    table = np.empty((steps, len(columns)))
    for index, column in enumerate(columns):
        table[:, index] = column
    return table
