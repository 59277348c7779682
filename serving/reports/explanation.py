"""Explanation of one decode step: which operator runs where, why, and what it costs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from device_model.acceptance import Acceptance
from device_model.device import RooflineDevice
from device_model.load import load_device
from device_model.roofline import EXT, HB, Part, Stage
from device_model.specs.hardware import TierNames
from device_model.specs.hardware_file import system_of
from device_model.specs.law import Law
from device_model.step import DraftShape, StepCost, StepPlan
from device_model.tree_law import accepted_of
from device_model.work import StepWork
from serving.policies.step_options import StepOptions
from serving.usage_error import UsageError

WAITING, WAITS = "latencies", "handovers, hops, launches: of any size"


TreeSize = tuple[int | None, int | None, int | None]
"""Depth, width and verify budget of a draft's tree, each None as calibrated."""
CALIBRATED: TreeSize = (None, None, None)


class Drafts(NamedTuple):
    """A draft scheme, the size of its tree, and the source of its acceptance rates."""

    scheme: str | None
    tree: TreeSize
    acceptance: str


class Operator(NamedTuple):
    """An operator of a stage: the unit that computes it, its seconds, what bounds them, what it computes and moves from
    the fast and the slow tier, and why it runs there."""

    stage: str
    operator: str
    unit: str
    seconds: float
    bound_by: str
    macs: float
    fast_bytes: float
    written_bytes: float
    slow_bytes: float
    why: str


@dataclass(frozen=True)
class Explanation:
    """A step of `batch` sequences with `context` tokens each, of `model` on `system` and `hardware` under a `law`."""

    system: str
    hardware: str
    model: str
    law: Law
    batch: int
    context: int
    device: RooflineDevice
    plan: StepPlan
    acceptance: str

    @cached_property
    def cost(self) -> StepCost:
        """Return what the step takes."""
        return next(iter(self.device.probe(self.plan)))

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Return the step's passes."""
        return self.device.explain(self.plan)

    @cached_property
    def rows(self) -> list[Operator]:
        """Return all operators, of each stage one pass, and the latencies beside them."""
        return [row for stage in self.stages for row in self.rows_of(stage)]

    def rows_of(self, stage: Stage) -> list[Operator]:
        """Return the operators of a stage, group by group, and what it waits for in the end."""
        parts = [part for group in stage.groups for part in group]
        rows = [_operator(stage.name, part, self.device.tiers) for part in parts]
        waits = Operator(stage.name, WAITING, "", float(stage.wait_s), "", 0.0, 0.0, 0.0, 0.0, WAITS)
        return [*rows, *([waits] if stage.wait_s else [])]

    @cached_property
    def rate(self) -> Acceptance | None:
        """Return the rate at which drafts are accepted; None without any."""
        return None if self.plan.draft is None else StepOptions(self.device, self.acceptance).acceptance(self.plan)

    @property
    def accepted(self) -> float:
        """Return the drafts of a sequence that are accepted on average."""
        device, draft = self.device, self.plan.draft
        if self.rate is None or draft is None or device.draft is None:
            return 0.0
        return accepted_of(self.rate.alpha, device.draft.shape, draft)

    @property
    def tokens(self) -> float:
        """Return the tokens that the step gives."""
        return self.batch * (1 + self.accepted)

    @property
    def latency_s(self) -> float:
        """Return the step's seconds."""
        return float(self.cost.latency_s)

    @property
    def energy_j(self) -> float:
        """Return the step's joules."""
        return float(self.cost.energy_j)

    @property
    def caveats(self) -> list[str]:
        """Return, in sentences, in what the step is at HB's bound or beyond it, beyond what its system's paper
        published, and beyond what was measured."""
        return [*_at_the_bound(self), *_untested(self)]


def _at_the_bound(found: Explanation) -> Iterator[str]:
    cost = found.cost
    if not cost.hits_beyond_hb:
        return
    if found.law is Law.PUBLISHED:
        holds = cost.expert_hits - cost.hits_beyond_hb
        yield (
            f"Beyond HB: {cost.expert_hits:,.0f} experts are to come from it, and it holds {holds:,.0f}: no cache can "
            "do that (law: published)."
        )
    else:
        published = cost.expert_hits + cost.hits_beyond_hb
        yield (
            f"HB serves all {cost.expert_hits:,.0f} experts that it holds; its paper's hit rate, as fitted here, would "
            f"need {published:,.0f} (`--law published` fits it to more cells)."
        )


def _untested(found: Explanation) -> Iterator[str]:
    device = found.device
    if beyond := device.beyond_published(StepWork.of(found.plan, 1)):
        yield f"Beyond what its paper published: {beyond}. Laws are drawn out there, and nothing tests them."
    if device.unmeasured:
        yield f"Assumed: {device.unmeasured}, as nobody has measured the model's. HB may be worth more."


def explained(names: tuple[str, str, str, str], drafts: Drafts, batch: int, context: int) -> Explanation:
    """Return one decode step of `batch` sequences with `context` tokens each; `names`: system, hardware, model, law.
    Raise DeviceError, and UsageError for a step that the device can't hold."""
    draft, tree, acceptance = drafts
    device = load_device(*names[:3], draft, law=Law(names[3]))
    shape = _shape(device, tree)
    _check(device, batch, context)
    plan = StepPlan.of(*[(1, context)] * batch, draft=shape)
    system = system_of(*names[:2])
    return Explanation(system, names[1], names[2], Law(names[3]), batch, context, device, plan, acceptance)


def _check(device: RooflineDevice, batch: int, context: int) -> None:
    if context >= device.max_context_tokens:
        most = device.max_context_tokens - 1
        raise UsageError(f"--context is {context}; allowed is at most {most}, the context of the model.")
    if batch * (context + 1) > device.kv_capacity_tokens:
        what = f"--batch {batch} with --context {context} needs {batch * (context + 1)} tokens of KV cache"
        raise UsageError(f"{what}; allowed are at most {device.kv_capacity_tokens}, which is what the device holds.")


def _shape(device: RooflineDevice, tree: TreeSize) -> DraftShape | None:
    if device.draft is None:
        given = [option for option, value in zip(("--depth", "--width", "--verify"), tree, strict=True) if value]
        if given:
            raise UsageError(f"{given[0]} is given without --draft; allowed is that of a draft scheme.")
        return None
    depth, width, verify = tree
    try:
        return device.draft.shape_at(depth or device.draft.shape.depth, width, verify)
    except ValueError as error:
        raise UsageError(f"--depth, --width and --verify make no tree: {error}.") from error


def _operator(stage: str, part: Part, tiers: TierNames) -> Operator:
    bound = part.bound()
    return Operator(
        stage=stage,
        operator=part.name,
        unit=part.unit.name,
        seconds=max(float(time) for time in part.times()),
        bound_by={HB: tiers.fast.upper(), EXT: tiers.slow.upper()}.get(bound, bound),
        macs=float(part.macs),
        fast_bytes=float(part.hb_bytes),
        written_bytes=float(part.hb_writes),
        slow_bytes=float(part.ext_bytes),
        why=part.why,
    )
