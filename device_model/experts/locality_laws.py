"""Locality laws: the share of experts that a pass touches, and of these reads that HB serves, at analytic fidelity.

ELMoE-3D models its LRU cache by a power law calibrated per model, with intra- and inter-request correlation and a
locality that degrades with the batch (7, Inference Framework; Fig. 16), but prints neither law nor parameters. The
laws below are ours; `foreserve calibrate` fits their exponents on its Table 3. What is known to be weak: with 4 GB,
from a batch of 4 or 8 on, the published AR speedups imply more hits in a step than the cache holds experts. With each
expert read once a step no cache can do that: the law for decoding reproduces what is published and is no proof of it.
"""

from typing import NamedTuple

from device_model.arrays import Number, least, most
from device_model.specs.calibrated import Locality, Speculation

SOME = 1e-12
# Of the step from a cache that is too small to one that serves. Table 3 shows no cell on the slope.
STEEPNESS = 12
# Numbers of tokens that are remembered.
KNOWN = 4096


class PassTokens(NamedTuple):
    """Whose experts a pass reads: `sequences` that decode, with `each` tokens (1 but for a tree of drafts), and
    `prefill` tokens of prompts."""

    sequences: int
    each: int
    prefill: int = 0

    @property
    def decoding(self) -> bool:
        """Tell whether this is plain decoding, a token a sequence."""
        return self.each == 1 and not self.prefill


class Experts:
    """The experts of one model under one calibration. Shares are of all experts of a layer, 0 to 1."""

    def __init__(self, per_layer: int, top_k: int, locality: Locality, speculation: Speculation) -> None:
        self.top_share = top_k / per_layer if per_layer else 0.0
        self._per_layer = per_layer
        self._locality = locality
        self._speculation = speculation
        # Powers take most of a probe's time, and a batch that decodes asks for the same ones at every step.
        self._known: dict[PassTokens, tuple[float, float]] = {}

    def choices(self, tokens: PassTokens) -> float:
        """As how many independent tokens `tokens` choose: b^beta n^gamma, and one for each token of a prompt.

        Drafts of one request share context and route alike (ELMoE-3D, Fig. 16b), so a tree of n counts as n^gamma; the
        requests of a batch are a little alike too. Tokens of a prompt stand in different places and count in full.
        """
        return self._choices_and_touched(tokens)[0]

    def touched(self, tokens: PassTokens) -> float:
        """Return the expected share of the experts that a pass reads: one stays untouched with 1 - k/E at each free
        choice."""
        return self._choices_and_touched(tokens)[1]

    def _choices_and_touched(self, tokens: PassTokens) -> tuple[float, float]:
        known = self._known.get(tokens)
        if known is None:
            law = self._locality
            choices = float(tokens.sequences**law.batch_exponent * tokens.each**law.draft_exponent + tokens.prefill)
            if len(self._known) >= KNOWN:
                self._known.clear()
            known = self._known[tokens] = choices, 1.0 - (1.0 - self.top_share) ** choices
        return known

    def pooled(self, tokens: PassTokens, pool: Number) -> Number:
        """Return the expected share of the experts that a pass reads where routing is confined to the share `pool`
        (4.2, Expert Throttling): the same choices among fewer experts, and never more than there are."""
        confined = least(self.top_share / most(pool, SOME), 1.0)
        return pool * (1.0 - (1.0 - confined) ** self.choices(tokens))

    def hits(self, cached: Number, tokens: PassTokens) -> Number:
        """Share of the experts that a pass reads that HB serves, if it holds the share `cached` of all, by LRU."""
        if tokens.decoding:
            return self._saturating(cached, tokens, self._speculation.decode_saturation)
        return self._saturating(cached, tokens, self._locality.saturation_exponent)

    def pool_hits(self, pool: Number) -> Number:
        """Share of the experts that verifying reads that Elastic-SD's pool serves: what share of all it holds.

        The pool was chosen before, for drafting. Fitted to Table 3 with an exponent as an LRU cache has, it does no
        better than by chance when drafts are verified; what hotness is worth shows in the acceptance (Fig. 17a).
        """
        return pool * self._worthwhile(pool)

    def _saturating(self, cached: Number, tokens: PassTokens, saturation: float) -> Number:
        """h = f + (f^a - f) (1 - t^s): one choice finds its experts with f^a, as the cache holds the popular ones; a
        pass that touches all (t = 1) can only find the share f that is there."""
        if self._per_layer == 0:
            return 0.0 * cached
        fresh = 1.0 - self.touched(tokens) ** saturation
        popular: Number = cached**self._locality.hit_exponent
        found: Number = (cached + (popular - cached) * fresh) * self._worthwhile(cached)
        return found

    def _worthwhile(self, cached: Number) -> Number:
        """Near 0 for a cache whose layers hold but a small share of what one token needs, each evicting the last; else
        near 1."""
        few = self._speculation.least_share_of_top_k * self.top_share / most(cached, SOME)
        worth: Number = 1.0 / (1.0 + few**STEEPNESS)
        return worth
