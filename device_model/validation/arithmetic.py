"""The arithmetic of one cell in words: for whoever wonders why a published figure is missed."""

from device_model.acceptance import batch_plan
from device_model.load import make_device
from device_model.specs.law import Law
from device_model.step import StepPlan
from device_model.validation.bound import Bound
from device_model.validation.cells import drafting_device, setup_of
from device_model.validation.table3 import Cell


def arithmetic(cell: Cell, mode: str, reference: float, law: Law) -> str:
    """Return what the times are that make up a speedup under a law, and what the published one would need."""
    device, shape = drafting_device(cell, setup_of(cell, law))
    plan = batch_plan(cell.batch)
    base_ms = make_device("xpu", setup_of(cell, law)).probe(plan).latency_s[0] * 1e3
    tokens = 1 + cell.alpha * shape.depth if mode == "SD" else 1.0
    cost = next(iter(device.probe(StepPlan(plan.new_tokens, plan.context, shape if mode == "SD" else None))))
    hits = cost.expert_hits / cost.expert_lookups if cost.expert_lookups else 0.0
    parts = f"a draft of {cost.seconds.draft_s * 1e3:.1f} ms and " if mode == "SD" else ""
    return (
        f"The xPU takes {base_ms:.1f} ms; here {parts}a pass of {cost.seconds.target_s * 1e3:.1f} ms, with "
        f"{100 * hits:.0f} % of its expert reads from HB, yield {tokens:.2f} tokens. "
        f"The paper's figure needs {base_ms * tokens / reference:.1f} ms in all."
    )


def why_it_resists(cell: Cell, bound: Bound) -> str:
    """Return what a cell above its bound needs of HB, and what there is."""
    assert bound.needed is not None
    return (
        f"AR {cell.phi_ar:.2f} needs {bound.needed:,.0f} experts (of one layer) from HB in a step, which holds "
        f"{bound.slices:,.0f}: {bound.highest_phi_ar:.2f} is the highest that any cache allows."
    )
