"""Hottest experts: those that a topic uses most, as many as a fast memory holds, evenly over the layers.

By the law of `hot_hits`, for models of which a share of hot choices is published: the memory holds hot experts first,
of which any is as likely as another, then cold ones. That is what an LRU cache comes to while the topic stays, if
tokens choose independently; a real one is `traced_cache.TracedCache`. Of all other models `fidelity.Analytic` says it.
"""

from device_model.arrays import Number, least, most
from device_model.experts.fidelity import CacheAsk
from device_model.experts.hot_hits import expected_touch
from device_model.experts.residency import Reads
from device_model.specs.spec import Model


class HottestCached:
    """The experts of one model with a published share. It has no state, so that carrying a pass out changes nothing."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._hot = model.top_k * model.expert_layers
        self._cold = (model.experts - model.top_k) * model.expert_layers

    def probe(self, ask: CacheAsk) -> Reads:
        asked = ask.tokens
        touch = expected_touch(self._model, asked.sequences * asked.each, asked.prefill)
        hits = touch.hot * _held(ask.slices, self._hot) + touch.cold * _held(ask.slices - self._hot, self._cold)
        return Reads(touch.touched, hits, least(touch.touched - hits, ask.slices))  # type: ignore[arg-type]  # or arrays

    def commit(self, ask: CacheAsk) -> Reads:
        return self.probe(ask)


def _held(slices: Number, experts: int) -> Number:
    """Return the share of so many experts that find room."""
    return least(most(slices, 0.0) / experts, 1.0) if experts else 0.0 * slices
