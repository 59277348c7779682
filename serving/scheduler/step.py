"""A step while the scheduler composes it."""

from collections.abc import Sequence as Many
from dataclasses import dataclass, field

from serving.scheduler.decode_group import DecodeGroup
from serving.scheduler.sequence import Sequence

# Costs are asked for this many steps at a time: enough to make the question rare, few enough to stay a small answer.
MAX_HORIZON = 256


@dataclass(slots=True)
class Step:
    """Tokens by sequence, who began, and what is left to give out. Those that decode in lockstep are in it `together`,
    ahead of all others, or not at all."""

    tokens: int
    prompt_tokens: int
    together: int = 0
    new_tokens: dict[str, int] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    preemptions: int = 0
    spilled: int = 0
    fetched: int = 0
    queried: int = 0
    cached: int = 0

    def grant(self, wanted: int, decodes: bool) -> int:
        """How many of the tokens that a sequence would compute it may."""
        return min(wanted, self.tokens) if decodes else min(wanted, self.tokens, self.prompt_tokens)

    def take(self, id: str, new: int, decodes: bool) -> None:
        """A sequence computes `new` tokens."""
        self.new_tokens[id] = new
        self.tokens -= new
        self.prompt_tokens -= 0 if decodes else new


Columns = tuple[
    list[str], list[int], list[int], list[bool], float, list[int], list[int], list[int], list[str]
]  # the first fields of a `Batch`


def columns(at_s: float, step: Step, together: DecodeGroup, alone: Many[Sequence]) -> Columns:
    """What a batch says of each sequence of a step that begins at `at_s`, those that decode in lockstep first."""
    if not step.together:
        together = NOBODY
    new = list(step.new_tokens.values())
    requests = together.requests() + [each.request for each in alone]
    emits = [each.computed + tokens >= each.length for each, tokens in zip(alone, new, strict=True)]
    return (
        together.ids() + list(step.new_tokens),
        [1] * step.together + new,
        together.context() + [each.computed for each in alone],
        [True] * step.together + emits,
        at_s,
        [each.seed for each in requests],
        together.released() + [each.released for each in alone],
        together.remaining() + [each.remaining for each in alone],
        [each.topic for each in requests],
    )


def horizon(step: Step, together: DecodeGroup, alone: Many[Sequence], running: int, spare: int) -> int:
    """Steps for which a step holds: 1 unless it has all that are `running` and all decode, else until the first ends or
    the KV cache is full, of which each may have `spare` tokens beside those that it has."""
    if not 0 < running <= step.together + len(alone) or any(each.length - each.computed != 1 for each in alone):
        return 1
    steps = min([MAX_HORIZON, *[min(each.remaining, each.room - each.computed + spare) for each in alone]])
    if step.together:
        steps = min(steps, together.left)
        # To know it takes a while, and mostly there is room enough anyway.
        if together.least_in_hand + spare < steps:
            steps = min(steps, together.in_hand + spare)
    return max(1, steps)


NOBODY = DecodeGroup(1, 0)
"""Of a step without those that decode in lockstep."""
