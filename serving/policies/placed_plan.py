"""Placed plan: the mix of topics for which experts are placed, told apart coarsely, in plans that stand for batches."""

from dataclasses import replace

import numpy as np

from device_model.experts.topic_usage import UNKNOWN
from device_model.step import IntArray, StepPlan

Mix = tuple[float, ...]
"""The weight of each topic that experts are placed for."""
# A mix is told apart by so many parts: of finer ones too many would be priced.
PARTS = 8


def coarse(mix: Mix | None) -> Mix | None:
    """Return the mix of `PARTS` parts that stands for a mix of topics; an even one stands for itself."""
    if mix is None or _is_even(mix):
        return mix
    return tuple((np.array(_shared_out(mix, PARTS)) / PARTS).tolist())


def placed(plan: StepPlan, mix: Mix | None) -> StepPlan:
    """Return a plan with experts placed for a mix, and sequences of its topics; as it is without a mix."""
    return plan if mix is None else replace(plan, placed=mix, topics=_topics(mix, len(plan.new_tokens)))


def _topics(mix: Mix, sequences: int) -> IntArray:
    """Return a topic for each of so many sequences, as often as the mix has it. Those of an even mix are unknown: they
    choose as those of all topics do on average."""
    if _is_even(mix):
        return np.full(sequences, UNKNOWN, dtype=np.int64)
    return np.repeat(np.arange(len(mix)), _shared_out(mix, sequences))


def _is_even(mix: Mix) -> bool:
    return max(mix) == min(mix)


def _shared_out(mix: Mix, count: int) -> list[int]:
    """Share `count` out by a mix's weights: what is left goes to the largest remainders, one each."""
    exact = np.array(mix) / sum(mix) * count
    whole = np.floor(exact)
    for at in np.argsort(whole - exact, kind="stable")[: count - int(whole.sum())]:
        whole[at] += 1
    return [int(each) for each in whole]
