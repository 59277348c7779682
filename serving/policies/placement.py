"""Expert placement in HB: experts used last (LRU), used most, or used most by the batch's topics.

Stratum has the placement follow the topic of each new batch, and charges the swap (3.1, Table 4): always. Where a swap
takes as long as some steps, it must pay: experts are placed anew if the steps that the batch has left, each sooner by
what the device model says, save more time than the swap takes.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from device_model.experts.topic_usage import UNKNOWN, TopicUsage
from device_model.step import IntArray, StepCost, StepPlan
from serving.policies.placed_plan import Mix
from serving.policies.step_option import StepModel
from serving.types import NEVER, Batch

LRU, HOT, TOPIC = PLACEMENTS = ("lru", "hot", "topic")
"""Cached by LRU, as the calibrated law has it; placed once, for all topics; placed for the topics of the batch."""
USAGES = MEASURED, PUBLISHED = ("measured", "published")
"""Whose table of experts by topic they are placed by: the token model's, or one with the published share of hot
choices."""
SWAPS = OWN_SWAP, ALWAYS, PAYS = ("auto", "always", "pays")
"""When topics have experts placed anew: as the system's paper has it, for each batch of another mix, or if it pays."""


class PlacedPlan(NamedTuple):
    """A batch's plan with the experts that HB holds during it, and what it cost to bring them in, if any were."""

    plan: StepPlan
    swap: StepCost | None = None


class ExpertPlacement:
    """Places experts. It remembers what for."""

    def __init__(self, model: StepModel, usage: TopicUsage, policy: str, always: bool = False) -> None:
        """Take what placement goes by; `always`: anew for each batch of another mix of topics, whether that pays or
        not."""
        self._model, self._usage, self._follows, self._always = model, usage, policy == TOPIC, always
        self._everyone = usage.mix(np.array([UNKNOWN]))
        self._placed: Mix | None = None
        self._judged: tuple[str, ...] = ()

    def go_on_from(self, other: "ExpertPlacement") -> None:
        """Go on where another placement has left its experts. Where HB has room for more by then, these come in as
        passes stream them by (`swap_cost`)."""
        self._placed = other._placed

    def place(self, batch: Batch, depth: int, ext_bytes_per_s: float) -> PlacedPlan:
        """Return the batch's plan with the experts that HB holds meanwhile; it will draft to about `depth`."""
        topics = self._topics(batch)
        mix = self._usage.mix(topics) if self._follows else self._everyone
        plan = replace(batch.plan, topics=topics, placed=self._placed)
        if mix == self._placed or (tuple(batch.ids) == self._judged and not self._always):
            return PlacedPlan(plan)
        self._judged = tuple(batch.ids)
        after = replace(plan, placed=mix)
        swap = self._model.swap(after, self._placed, depth, ext_bytes_per_s)
        if not self._always and self._saved_s(batch, mix, depth, ext_bytes_per_s) <= swap.latency_s:
            return PlacedPlan(plan)
        self._placed = mix
        # Of a mix that is nearly the last one, every expert may stay where it is.
        return PlacedPlan(after, swap if swap.latency_s else None)

    def _saved_s(self, batch: Batch, mix: Mix, depth: int, ext_bytes_per_s: float) -> float:
        """Seconds by which the batch is done sooner with experts placed for `mix`; without end if none are placed."""
        if self._placed is None:
            return NEVER
        took_s, takes_s = (self._left_s(batch, each, depth, ext_bytes_per_s) for each in (self._placed, mix))
        return took_s - takes_s

    def _left_s(self, batch: Batch, mix: Mix, depth: int, ext_bytes_per_s: float) -> float:
        """Seconds that the batch takes for the tokens that its sequences have left on average. Prompts in it are taken
        for done: they read nearly all experts, wherever these are."""
        new, context = batch.plan.new_tokens, batch.plan.context
        ahead = StepPlan(np.ones_like(new), context + new, topics=self._topics(batch), placed=mix)
        [option] = self._model.price(ahead, 1, ext_bytes_per_s, (depth,))
        return self._tokens_left(batch) / option.tokens_per_s

    def _tokens_left(self, batch: Batch) -> float:
        """Return how many tokens the batch's sequences are expected to have yet: of what they may have, the part that
        answers have had so far."""
        released = np.array(batch.released)
        expected = batch.outlook.answered * (released + np.array(batch.remaining)) - released
        return float(np.maximum(expected, 1.0).sum())

    def _topics(self, batch: Batch) -> IntArray:
        return np.array([self._usage.index(topic) for topic in batch.topics], dtype=np.int64)
