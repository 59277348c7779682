"""Expert touch by topic: the number of experts that a pass touches where its tokens prefer some, `hot` and `cold` ones
apart.

Stratum calls hot the k L experts that a topic uses most, of K in each of L layers, k of which a token chooses, and
gives the share h of a token's choices that fall on them (arXiv 2510.05245, 5.2 and 6.3.3). Beyond that nothing is
known, so that within either class all are taken for equally likely, and tokens choose independently: a hot expert is
chosen with h, a cold one with (1 - h) k / (K - k). Without a published h nothing is known of topics, and h = k / K; how
many experts a batch reads then follows from their popularity (`popularity`), as on an xPU: the requests are the same.
"""

from functools import lru_cache
from typing import NamedTuple

from device_model.experts.popularity import free_choices, spread_of
from device_model.specs.spec import Model
from device_model.work import StepWork


class ExpertTouch(NamedTuple):
    """Experts of all layers that a pass reads, once each, and the choices of its tokens that fall on them."""

    hot: float
    cold: float
    hot_choices: float
    cold_choices: float

    @property
    def touched(self) -> float:
        return self.hot + self.cold

    @property
    def choices(self) -> float:
        return self.hot_choices + self.cold_choices


@lru_cache(maxsize=4096)
def expected_touch(model: Model, decoded: int, prefill: int = 0, hit_rate: float | None = None) -> ExpertTouch:
    """Return what `decoded` tokens of one topic, and `prefill` tokens of its prompts, touch; `hit_rate` in place of the
    model's own h."""
    if not model.experts:
        return ExpertTouch(0.0, 0.0, 0.0, 0.0)
    if hit_rate is None and not model.hot_hit_rate:
        return touch_by_popularity(model, decoded, prefill)
    rate, tokens = model.hot_hit_rate if hit_rate is None else hit_rate, decoded + prefill
    cold_experts = model.experts - model.top_k
    cold_chance = min(1.0, (1 - rate) * model.top_k / cold_experts) if cold_experts else 0.0
    choices = tokens * model.top_k * model.expert_layers
    return ExpertTouch(
        hot=model.expert_layers * model.top_k * (1 - (1 - rate) ** tokens),
        cold=model.expert_layers * cold_experts * (1 - (1 - cold_chance) ** tokens),
        hot_choices=choices * rate,
        cold_choices=choices * (1 - rate),
    )


def touch_of(model: Model, work: StepWork, hit_rate: float | None = None) -> ExpertTouch:
    """Return what a pass touches whose tokens are of one topic."""
    prefill = work.prefill_tokens
    return expected_touch(model, work.tokens - prefill, prefill, hit_rate)


def touch_by_popularity(model: Model, decoded: int, prefill: int) -> ExpertTouch:
    """Return what tokens touch of a model of whose topics nothing is known; those of prompts count in full."""
    share = model.top_k / model.experts
    choices = free_choices(share, spread_of(model), decoded) + prefill
    touched = model.expert_layers * model.experts * (1.0 - (1.0 - share) ** choices)
    chosen = (decoded + prefill) * model.top_k * model.expert_layers
    return ExpertTouch(share * touched, (1 - share) * touched, share * chosen, (1 - share) * chosen)
