"""Drafting ranges: the batches for which drafting is faster at a context, by the device model, in words too."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from device_model.step import StepPlan
from serving.device.device_spec import DeviceSpec
from serving.device.mode_choice import TAU
from serving.policies.hysteresis import LEAD
from serving.policies.placed_plan import Mix, placed
from serving.policies.regrets import Regret
from serving.policies.step_option import PLAIN
from serving.policies.step_options import StepOptions

CONTEXTS = tuple(1024 * 2**power for power in range(6))
"""Those that a sentence tells of, as far as the model's goes: 1k to 32k."""


def paying_ranges(
    options: StepOptions,
    depths: Sequence[int],
    context: int,
    most: int,
    mix: Mix | None = None,
    ext_bytes_per_s: float | None = None,
) -> list[range]:
    """Return the batches of up to `most` sequences, each with so much context, that decode faster if they draft to the
    best of some depths: by more than is left to plain decoding. With a `mix`, experts are placed for it. The slow tier
    gives `ext_bytes_per_s`, or all that it has."""

    def pays(batch: int) -> bool:
        plan = placed(StepPlan.of(*[(1, context)] * batch), mix)
        plain, *drafting = options.price(plan, 1, ext_bytes_per_s, (PLAIN, *depths))
        best = max(option.tokens_per_s for option in drafting)
        return Regret.of(1.0 / plain.tokens_per_s, 1.0 / best).plain > LEAD

    return list(_runs([batch for batch in range(1, most + 1) if pays(batch)]))


def told_drafting(specs: Iterable[DeviceSpec], most: int, max_context: int) -> Iterator[str]:
    """Yield a sentence for each kind of device that drafts in mode `tau`: in which batches at which context. These have
    up to `most` sequences, and as many as the KV cache has room for, and each device its part of a shared slow tier.
    Before them comes one about what is set and says nothing in a mode. Raise as `DeviceSpec.load` does."""
    kinds = list(dict.fromkeys(specs))
    for choice in dict.fromkeys(spec.mode_choice for spec in kinds):
        if unused := choice.unused():
            yield f"Set, and without effect in mode {choice.mode}: {', '.join(unused)}."
    for spec in kinds:
        if spec.mode_choice.mode == TAU and spec.draft and not spec.trace:
            yield f"{spec.hardware} drafts {_where(spec, most, max_context)}."


def _where(spec: DeviceSpec, most: int, max_context: int) -> str:
    options, choice = spec.load(), spec.mode_choice
    if choice.tau:
        return f"from a batch of {choice.tau} on, at any context"
    depths, mix = choice.depths(options), spec.mix_of_all()
    capacity, rate = options.device.kv_capacity_among(spec.sharers), options.device.ext_bytes_per_s / spec.sharers
    contexts = [context for context in CONTEXTS if context <= min(max_context, capacity)]
    contexts = contexts or [min(max_context, max(1, capacity))]
    held = [min(most, capacity // context) for context in contexts]
    found = [
        paying_ranges(options, depths, context, batches, mix, rate)
        for context, batches in zip(contexts, held, strict=True)
    ]
    last = max((i for i, ranges in enumerate(found) if ranges), default=-1) + 1
    parts = [
        f"at {_told(context)} {told_ranges(ranges, batches)}"
        for context, ranges, batches in zip(contexts[:last], found, held, strict=False)
    ]
    parts += [f"none at {_told(context)} and more" for context in contexts[last : last + 1]]
    return f"where that is faster: in batches {', '.join(parts)} (mode tau){_shared(spec)}"


def _told(context: int) -> str:
    return f"{context // 1024}k" if context >= CONTEXTS[0] else f"{context} tokens"


def _shared(spec: DeviceSpec) -> str:
    """Say what a range holds for that was priced with a part of a shared tier."""
    return f", while all {spec.sharers} that share its slow tier are busy" if spec.sharers > 1 else ""


def _runs(batches: list[int]) -> Iterator[range]:
    for _, run in groupby(enumerate(batches), key=lambda each: each[1] - each[0]):
        members = [batch for _, batch in run]
        yield range(members[0], members[-1] + 1)


def told_ranges(ranges: Sequence[range], most: int) -> str:
    """Return batches in words, of all up to `most`: "of 4 to 40", "from 2 on", "of none"."""
    if not ranges:
        return "of none"
    ends = [f"from {run[0]} on" if run[-1] == most else f"of {run[0]} to {run[-1]}" for run in ranges]
    return " and ".join(ends)
