"""A step while the scheduler composes it: token grants, and the columns of the batch made of it."""

from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from typing import Any

from serving.scheduler.decode_group import DecodeGroup
from serving.scheduler.sequence import Sequence

# Costs are asked for this many steps at a time: enough to make the question rare, few enough to stay a small answer.
MAX_HORIZON = 256


@dataclass(slots=True)
class Step:
    """New tokens by sequence id, admissions, and the tokens left to grant. The first `together` sequences are the whole
    decode group, or none of it. `found` stands beside `started`: tokens of each that were cached."""

    tokens: int
    prompt_tokens: int
    together: int = 0
    new_tokens: dict[str, int] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    preempted: list[str] = field(default_factory=list)
    found: list[int] = field(default_factory=list)
    spilled: int = 0
    fetched: int = 0
    queried: int = 0
    cached: int = 0

    def grant(self, wanted: int, decodes: bool) -> int:
        """Return how many of the `wanted` tokens a sequence may compute; 0 if none."""
        return min(wanted, self.tokens) if decodes else min(wanted, self.tokens, self.prompt_tokens)

    def begin(self, id: str, new: int, decodes: bool, found: int) -> None:
        """Admit a sequence, of which the prefix cache has `found` tokens, to compute `new` ones."""
        self.take(id, new, decodes)
        self.started.append(id)
        self.found.append(found)

    def take(self, id: str, new: int, decodes: bool) -> None:
        """Let a sequence compute `new` tokens."""
        self.new_tokens[id] = new
        self.tokens -= new
        self.prompt_tokens -= 0 if decodes else new

    def told(self) -> dict[str, Any]:
        """Return what a `Batch` tells of the step, by its fields."""
        return {
            "started": self.started,
            "found": self.found,
            "preempted": self.preempted,
            "spilled_tokens": self.spilled,
            "fetched_tokens": self.fetched,
            "queried_tokens": self.queried,
            "cached_tokens": self.cached,
        }


Columns = tuple[
    list[str], list[int], list[int], list[bool], float, list[int], list[int], list[int], list[str]
]  # the first fields of a `Batch`


def columns(at_s: float, step: Step, together: DecodeGroup, alone: Many[Sequence]) -> Columns:
    """Return the batch's columns, one entry a sequence, decode group first, for a step that begins at `at_s`."""
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
    """Return the number of steps for which a step holds: 1 unless all `running` sequences decode in it and none was
    preempted; else until the first of them ends or has used up the `spare` KV tokens that each may still get."""
    if not 0 < running <= step.together + len(alone) or not all(each.decodes for each in alone):
        return 1
    if step.preempted:  # nobody was admitted, and whoever waits may fit into what was given up
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
