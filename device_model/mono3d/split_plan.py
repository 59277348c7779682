"""A step's prompts and its sequences that decode, apart: they are carried out by different units."""

import numpy as np

from device_model.step import StepPlan


def split(plan: StepPlan) -> tuple[StepPlan, StepPlan]:
    """Return the prompts of a plan, and what decodes of it; each with its share of topics and routes."""
    decodes = plan.new_tokens == 1
    return _only(plan, ~decodes), _only(plan, decodes)


def _only(plan: StepPlan, which: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]") -> StepPlan:
    return StepPlan(
        plan.new_tokens[which],
        plan.context[which],
        routes=None if plan.routes is None else plan.routes[np.repeat(which, plan.new_tokens)],
        topics=None if plan.topics is None else plan.topics[which],
        placed=plan.placed,
    )
