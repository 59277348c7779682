"""`foreserve explain`: which operator of a step runs where, why, and what it costs."""

from itertools import accumulate
from typing import NamedTuple

from rich.console import Console

from device_model.device import RooflineDevice
from device_model.load import load_device
from device_model.roofline import EXT, HB, Part, Stage
from device_model.specs.hardware import TierNames
from device_model.specs.hardware_file import system_of
from device_model.specs.law import Law
from device_model.speculation import accepted_at
from device_model.step import DraftShape, StepCost, StepPlan
from device_model.work import StepWork
from serving.policies.step_options import StepOptions
from serving.presentation.table import Table
from serving.usage_error import UsageError


class Drafts(NamedTuple):
    """A draft scheme, its depth if it is not the calibrated one, and the source of its acceptance rates."""

    scheme: str | None
    depth: int | None
    acceptance: str


def explain(names: tuple[str, str, str, str], drafts: Drafts, batch: int, context: int, console: Console) -> None:
    """Print one decode step of `batch` sequences with `context` tokens each; `names`: system, hardware, model,
    law."""
    draft, depth, acceptance = drafts
    device = load_device(*names[:3], draft, law=Law(names[3]))
    shape = _shape(device, depth)
    _check(device, batch, context, draft, depth)
    plan = StepPlan.of(*[(1, context)] * batch, draft=shape)
    cost = next(iter(device.probe(plan)))
    system = system_of(*names[:2])
    console.print(f"{names[2]} on {system} ({names[1]}): a step of {batch} sequences with {context} tokens of context")
    for stage in device.explain(plan):
        console.print(_table(stage, device.tiers))
    _print_cost(console, cost, device)
    _print_beyond(console, device, plan, cost, Law(names[3]))
    tokens = float(batch)
    if shape is not None:
        tokens = batch * (1 + _print_accepted(console, device, plan, acceptance))
    console.print(f"Per token: {cost.latency_s / tokens * 1e3:.3f} ms, {cost.energy_j / tokens * 1e3:.3f} mJ")


def _check(device: RooflineDevice, batch: int, context: int, draft: str | None, depth: int | None) -> None:
    if depth is not None and draft is None:
        raise UsageError("--depth is given without --draft; allowed is a depth of a draft scheme.")
    if context >= device.max_context_tokens:
        most = device.max_context_tokens - 1
        raise UsageError(f"--context is {context}; allowed is at most {most}, the context of the model.")
    if batch * (context + 1) > device.kv_capacity_tokens:
        what = f"--batch {batch} with --context {context} needs {batch * (context + 1)} tokens of KV cache"
        raise UsageError(f"{what}; allowed are at most {device.kv_capacity_tokens}, which is what the device holds.")


def _shape(device: RooflineDevice, depth: int | None) -> DraftShape | None:
    if device.draft is None:
        return None
    shape = device.draft.shape
    return shape if depth is None else DraftShape(depth, shape.width, max(shape.verify_tokens, depth))


def _table(stage: Stage, tiers: TierNames) -> Table:
    times = "" if stage.repeats == 1 else f", {stage.repeats} passes; one of them:"
    fast, slow = (f"{tier.upper()} MB" for tier in tiers)
    heads = ["operator", "unit", "ms", "bound by", "GMAC", fast, "written", slow, "why there"]
    rows = [_row(part, tiers) for group in stage.groups for part in group]
    if stage.wait_s:
        rows.append(("latencies", "", f"{stage.wait_s * 1e3:.3f}", *[""] * 5, "handovers, hops, launches: of any size"))
    ends = accumulate(len(group) for group in stage.groups)
    return Table(heads, rows, stage.name + times, words=(0, 1, 3, 8), gaps=[end - 1 for end in ends])


def _row(part: Part, tiers: TierNames) -> tuple[str, ...]:
    mega = [f"{float(value) / 1e6:,.1f}" for value in (part.hb_bytes, part.hb_writes, part.ext_bytes)]
    slowest_s = max(float(time) for time in part.times())
    return (
        part.name,
        part.unit.name,
        f"{slowest_s * 1e3:.3f}",
        {HB: tiers.fast.upper(), EXT: tiers.slow.upper()}.get(part.bound(), part.bound()),
        f"{float(part.macs) / 1e9:.2f}",
        *mega,
        part.why,
    )


def _print_cost(console: Console, cost: StepCost, device: RooflineDevice) -> None:
    draft_ms, target_ms, update_ms = (seconds * 1e3 for seconds in cost.seconds)
    console.print(
        f"Step: {cost.latency_s * 1e3:.3f} ms (drafting {draft_ms:.3f}, target {target_ms:.3f}, "
        f"pool update not hidden {update_ms:.3f}), {cost.energy_j * 1e3:.2f} mJ"
    )
    joules = {device.tiers.of(name.removesuffix("_j")): value for name, value in cost.energy._asdict().items()}
    shares = ", ".join(f"{name} {value * 1e3:.2f}" for name, value in joules.items())
    powers = ", ".join(f"{name} {watts:.1f} W" for name, watts in cost.power_by_stage_w.items())
    console.print(f"Energy (mJ): {shares}; average power {cost.power_w:.1f} W ({powers})")
    if cost.expert_lookups:
        console.print(
            f"Experts: {cost.expert_lookups:,.0f} read, "
            f"{100 * cost.expert_hits / cost.expert_lookups:.1f} % {device.hits_are}"
        )


def _print_beyond(console: Console, device: RooflineDevice, plan: StepPlan, cost: StepCost, law: Law) -> None:
    """Say in what a step is beyond HB, and beyond what its system's paper published."""
    if cost.hits_beyond_hb and law is Law.PUBLISHED:
        holds = cost.expert_hits - cost.hits_beyond_hb
        console.print(
            f"Beyond HB: {cost.expert_hits:,.0f} experts are to come from it, and it holds {holds:,.0f}: no cache can "
            "do that (law: published)."
        )
    elif cost.hits_beyond_hb:
        published = cost.expert_hits + cost.hits_beyond_hb
        console.print(
            f"HB serves all {cost.expert_hits:,.0f} experts that it holds; its paper's hit rate would need "
            f"{published:,.0f} (law: published)."
        )
    if beyond := device.beyond_published(StepWork.of(plan, 1)):
        console.print(f"Beyond what its paper published: {beyond}. Laws are drawn out there, and nothing tests them.")
    if device.unmeasured:
        console.print(f"Assumed: {device.unmeasured}, as nobody has measured the model's. HB may be worth more.")


def _print_accepted(console: Console, device: RooflineDevice, plan: StepPlan, acceptance: str) -> float:
    assert device.draft is not None and plan.draft is not None  # only devices that draft come here
    rate, depth = StepOptions(device, acceptance).acceptance(plan), plan.draft.depth
    accepted = accepted_at(rate.alpha, device.draft.shape.depth, depth)
    console.print(f"Accepted: {accepted:.2f} of {depth} drafts (alpha {rate.alpha:.2f}), and one token more")
    if rate.caveat:
        console.print(f"Note: {rate.caveat}")
    return accepted
