"""One way in which a device can carry a step out: plainly, or drafting to some depth; what it costs, and yields."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from device_model.step import DraftShape, StepCost, StepCosts, StepPlan
from serving.policies.placed_plan import Mix
from serving.policies.turnover import CostQuestion, TokenCost
from serving.types import NEVER

PLAIN = 0
"""The depth of a step that doesn't draft."""

# Widths of the buckets that tell batches apart: tokens of the KV cache (100 MB of Qwen3-30B-A3B's), and bandwidth.
KV_TOKENS = 1024
SHARES = 8


class StepOption(NamedTuple):
    """One way to carry out a step: drafting to a `depth`, or plainly (`PLAIN`). `costs` are those of the coming steps
    if plain, else of one. `tokens` are the tokens that all decoding sequences get of the first step on average; `rate`
    is the chance that a draft is accepted once those before it are, in a chain that has as many accepted as the tree,
    `shape`."""

    depth: int
    costs: StepCosts
    tokens: float
    rate: float = 0.0
    shape: DraftShape | None = None

    @property
    def step_s(self) -> float:
        """The seconds of the first step."""
        return float(self.costs.latency_s[0])

    @property
    def step_j(self) -> float:
        """The joules of the first step."""
        return float(self.costs.energy_j[0].sum())

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.step_s

    @property
    def tokens_per_j(self) -> float:
        return self.tokens / self.step_j

    def within(self, seconds: float) -> "StepOption":
        """Return the option with those steps only that begin within so many seconds, and the first in any case."""
        if seconds == NEVER or len(self.costs) == 1:
            return self
        begin_s = np.add.accumulate(self.costs.latency_s[:-1])
        return self._replace(costs=StepCosts(self.costs.table[: int(np.searchsorted(begin_s, seconds)) + 1]))

    def worth(self, by_energy: bool, token_cost: float | None = None, most: float = 0.0) -> float:
        """Return the tokens per second, or joule.

        A prompt in the step costs the same in each way, and would make those look best that bring most tokens with it.
        So, where tokens have a `token_cost` afterwards, what the step lacks of `most` tokens is taken to be decoded
        then.
        """
        if token_cost is None:
            return self.tokens_per_j if by_energy else self.tokens_per_s
        return most / (self.cost(by_energy) + (most - self.tokens) * token_cost)

    def cost(self, by_energy: bool) -> float:
        """Return the seconds, or joules, of a step."""
        return self.step_j if by_energy else self.step_s


class Progress(NamedTuple):
    """How far sequences that decode have got: by their `seeds` and the tokens `released` of each drafts are drawn, and
    it may have so many `remaining`. All [n]."""

    seeds: list[int]
    released: list[int]
    remaining: list[int]

    def after(self, accepted: list[int]) -> "Progress":
        """Return how far they are after a step in which so many drafts of each are accepted, and one token more."""
        released = [had + more + 1 for had, more in zip(self.released, accepted, strict=True)]
        return Progress(
            self.seeds, released, [left - more - 1 for left, more in zip(self.remaining, accepted, strict=True)]
        )


class DraftedStep(NamedTuple):
    """A step that drafts, and how many drafts of each sequence are `accepted` in it, [n]."""

    option: StepOption
    accepted: list[int]


class StepModel(Protocol):
    """Answers what steps would cost, and tokens later: `StepOptions`, or an actor that owns them."""

    def price(
        self, plan: StepPlan, steps: int, ext_bytes_per_s: float | None, depths: Sequence[int]
    ) -> list[StepOption]: ...

    def draft(
        self, plan: StepPlan, progress: Progress, steps: int, ext_bytes_per_s: float | None, depth: int
    ) -> list[DraftedStep]: ...

    def move(self, to_hb: int, to_ext: int, ext_bytes_per_s: float | None) -> StepCost: ...

    def swap(self, plan: StepPlan, before: Mix | None, depth: int, ext_bytes_per_s: float | None) -> StepCost: ...

    def token_costs(self, depths: tuple[int, ...], question: CostQuestion) -> list[TokenCost]: ...
