"""A step's prompts and its sequences that decode, apart: they are carried out by different units."""

from dataclasses import replace

import numpy as np

from device_model.step import BoolArray, StepPlan


def split(plan: StepPlan) -> tuple[StepPlan, StepPlan]:
    """Return the prompts of a plan, and what decodes of it; each with its share of topics and routes."""
    decodes = plan.decodes
    prompts = replace(_only(plan, ~decodes), decoding=np.empty(0, dtype=np.int64))
    return prompts, _only(plan, decodes)


def _only(plan: StepPlan, which: BoolArray) -> StepPlan:
    return StepPlan(
        plan.new_tokens[which],
        plan.context[which],
        routes=None if plan.routes is None else plan.routes[np.repeat(which, plan.new_tokens)],
        topics=None if plan.topics is None else plan.topics[which],
        placed=plan.placed,
    )
