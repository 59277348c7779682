"""Drafting ranges: the batches for which drafting is faster at a context, by the device model, in words too."""

from collections.abc import Iterator
from itertools import groupby

from device_model.step import StepPlan
from serving.device.mode_choice import TAU, ModeChoice
from serving.policies.step_options import PLAIN, StepOptions

CONTEXTS = tuple(1024 * 2**power for power in range(6))
"""Those that a sentence tells of, as far as the model's goes: 1k to 32k."""


def drafting_ranges(options: StepOptions, choice: ModeChoice, context: int, most: int) -> list[range]:
    """Return the batches of up to `most` sequences, each with so much context, that decode faster if they draft."""
    depths = (PLAIN, *choice.depths(options))
    return list(_runs([batch for batch in range(1, most + 1) if _pays(options, depths, batch, context)]))


def told_drafting(options: StepOptions, choice: ModeChoice, most: int, max_context: int) -> str:
    """Return where a device drafts in mode `tau`, as the end of a sentence; "" in any other mode, or without a draft.
    Batches have up to `most` sequences, and as many as the KV cache has room for."""
    if choice.mode != TAU or not options.calibrated:
        return ""
    if choice.tau:
        return f"drafts from a batch of {choice.tau} on, at any context"
    parts = []
    for context in CONTEXTS:
        held = min(most, options.device.kv_capacity_tokens // context)
        if context <= max_context and held:
            ranges = drafting_ranges(options, choice, context, held)
            parts.append(f"at {context // 1024}k {_told(ranges, held)}")
    return "drafts where that is faster, in batches " + ", ".join(parts)


def _pays(options: StepOptions, depths: tuple[int, ...], batch: int, context: int) -> bool:
    plain, *drafting = options.price(StepPlan.of(*[(1, context)] * batch), depths=depths)
    return max(option.tokens_per_s for option in drafting) > plain.tokens_per_s


def _runs(batches: list[int]) -> Iterator[range]:
    for _, run in groupby(enumerate(batches), key=lambda each: each[1] - each[0]):
        members = [batch for _, batch in run]
        yield range(members[0], members[-1] + 1)


def _told(ranges: list[range], most: int) -> str:
    if not ranges:
        return "of none"
    ends = [f"from {run[0]} on" if run[-1] == most else f"of {run[0]} to {run[-1]}" for run in ranges]
    return " and ".join(ends)
