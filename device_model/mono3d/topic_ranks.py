"""Experts ranked by what a mix of topics uses, over all layers together, and what a step then reads (Algorithm 1).

Of a model whose popularity was measured, requests read as many experts as that says, as on all hardware, and usage says
which: its decoding tokens count as fewer independent ones, and what these leave unread of that number is read evenly.
"""

from typing import NamedTuple

import numpy as np

from device_model.experts.hot_hits import ExpertTouch, touch_by_popularity
from device_model.experts.popularity import free_choices, spread_of
from device_model.experts.residency import tally
from device_model.experts.route_map import Routers
from device_model.experts.topic_usage import UNKNOWN, TopicUsage
from device_model.mono3d.row_reads import RowReads
from device_model.mono3d.row_swap import Slots
from device_model.step import FloatArray, IntArray, StepPlan

Mix = tuple[float, ...]
"""The weight of each topic of a usage table."""
KNOWN = 64
# A chance of 1 would make the logarithm of missing infinite.
ALMOST = 1.0 - 1e-12


class ExpertChoices(NamedTuple):
    """Of each expert [experts of all layers]: the chance that a step reads it, and the choices that fall on it."""

    read: FloatArray
    choices: FloatArray


class TopicRanks:
    """The experts of one model by topic. It has no state but what it remembers of its answers."""

    def __init__(self, usage: TopicUsage, routers: Routers, slots: Slots) -> None:
        self.usage, self.routers, self.slots = usage, routers, slots
        chances = usage.chances(routers).reshape(len(usage.topics), -1)
        self._chances = np.concatenate([chances, chances.mean(axis=0, keepdims=True)])
        self._misses = np.log1p(-np.minimum(self._chances, ALMOST))
        self._known: dict[Mix | None, IntArray] = {}

    def places(self, mix: Mix | None) -> IntArray:
        """Return the place of each expert [experts] under a mix, 0 the most used; None is all topics alike. Lower ids
        first of equally used ones. ValueError for a mix that means nothing.
        """
        places = self._known.get(mix)
        if places is None:
            if len(self._known) >= KNOWN:
                self._known.clear()
            order = np.argsort(-(self._weights(mix) @ self._chances[:-1]), kind="stable")
            places = np.empty_like(order)
            places[order] = np.arange(len(order))
            self._known[mix] = places
        return places

    def reads(self, plan: StepPlan) -> RowReads:
        """Return what the tokens of a plan read where it has its experts placed: by its routes, if it has them, or else
        as expected of its topics. ValueError for topics that the table does not have.
        """
        chosen = self._routed(plan.routes) if plan.routes is not None else self._expected(plan)
        places = self.places(plan.placed)
        hot = places < self.routers.layers * self.routers.top_k
        trc_ns = self.slots.trc_ns[places]
        touch = ExpertTouch(
            float(chosen.read[hot].sum()),
            float(chosen.read[~hot].sum()),
            float(chosen.choices[hot].sum()),
            float(chosen.choices[~hot].sum()),
        )
        return RowReads(touch, _mean(trc_ns[hot], chosen.read[hot]), _mean(trc_ns[~hot], chosen.read[~hot]))

    def _routed(self, routes: IntArray) -> ExpertChoices:
        choices = tally(routes, self.routers.layers, self.routers.experts).ravel().astype(np.float64)
        return ExpertChoices((choices > 0).astype(np.float64), choices)

    def _expected(self, plan: StepPlan) -> ExpertChoices:
        choices = self._tokens(plan, plan.new_tokens) @ self._chances
        model, decoded = self.slots.model, int(np.count_nonzero(plan.decodes))
        if not (spread := spread_of(model)):
            return ExpertChoices(-np.expm1(self._tokens(plan, plan.new_tokens) @ self._misses), choices)
        each = free_choices(model.top_k / model.experts, spread, decoded) / decoded if decoded else 1.0
        read = -np.expm1(self._tokens(plan, np.where(plan.decodes, each, plan.new_tokens)) @ self._misses)
        touched = touch_by_popularity(model, decoded, int(plan.new_tokens.sum()) - decoded).touched
        if (total := float(read.sum())) >= touched:
            return ExpertChoices(read * (touched / total), choices)
        unread = 1.0 - read
        return ExpertChoices(read + unread * ((touched - total) / float(unread.sum())), choices)

    def _tokens(self, plan: StepPlan, counted: FloatArray | IntArray) -> FloatArray:
        """Return the tokens by topic [topics + 1], UNKNOWN last, of sequences of which each counts as so many."""
        count = len(self.usage.topics)
        topics = np.full(len(plan.new_tokens), UNKNOWN) if plan.topics is None else plan.topics
        if len(topics) != len(plan.new_tokens) or topics.min() < UNKNOWN or topics.max() >= count:
            allowed = f"allowed is one for each sequence, {UNKNOWN} to {count - 1}"
            raise ValueError(f"topics are {topics.tolist()} of {len(plan.new_tokens)} sequences; {allowed}")
        # The index -1 of Python is the last one, and so it is here.
        return np.bincount(topics % (count + 1), counted, minlength=count + 1).astype(np.float64)

    def _weights(self, mix: Mix | None) -> FloatArray:
        count = len(self.usage.topics)
        weights = np.ones(count) if mix is None else np.array(mix, dtype=np.float64)
        if weights.shape != (count,) or not ((weights >= 0).all() and 0 < weights.sum() < np.inf):
            allowed = f"{count} weights of 0 or more, not all 0: of {', '.join(self.usage.topics)}"
            raise ValueError(f"The plan's experts are placed for {mix}; allowed are {allowed}")
        return weights


def _mean(values: FloatArray, weights: FloatArray) -> float:
    """Return the mean of `values`; that of all alike if nothing weighs."""
    total = float(weights.sum())
    return float(values @ weights) / total if total else float(values.mean()) if len(values) else 0.0
