"""Locality laws: the share of experts that a pass touches, and of these reads that HB serves, at analytic fidelity.

ELMoE-3D models its LRU cache by a power law calibrated per model, with intra- and inter-request correlation (7,
Inference Framework; Fig. 16), but prints neither law nor parameters. These are ours; `foreserve calibrate` fits their
figures to its Table 3.

1. Reads. Requests want the same popular experts (`popularity`).
2. Hits. HB serves f^a of what decoding reads if it holds the share f of the experts, at any batch: all rows with a
   cache have such a share, to a few percent.
3. Two readings (`Law`). f^a of the reads of a batch of 8 are often more experts than HB holds. `published` has them;
   `realisable` ends where HB has served all that it holds, since a pass reads each expert once, whatever the policy.
"""

from typing import NamedTuple

from device_model.arrays import Number, least, most
from device_model.experts.popularity import free_choices
from device_model.specs.calibrated import Locality, Speculation
from device_model.specs.law import Law

SOME = 1e-12
# Of the step from a cache that is too small to one that serves. Table 3 shows no cell on the slope.
STEEPNESS = 12
# Of a share that HB holds, and all of it serves.
ROUNDING = 1.0 + 1e-9
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

    def __init__(
        self, per_layer: int, top_k: int, locality: Locality, speculation: Speculation, law: Law = Law.REALISABLE
    ) -> None:
        self._law = law
        self.top_share = top_k / per_layer if per_layer else 0.0
        self._per_layer = per_layer
        self._locality = locality
        self._speculation = speculation
        # Powers take most of a probe's time, and a batch that decodes asks for the same ones at every step.
        self._known: dict[PassTokens, tuple[float, float]] = {}

    def choices(self, tokens: PassTokens) -> float:
        """As how many tokens `tokens` choose, if each chose freely among experts that are all alike.

        Requests want the same popular experts, and count as fewer (1). Drafts of one request share context and route
        alike (ELMoE-3D, Fig. 16b), so that a tree of n counts as n^gamma. Tokens of a prompt stand in different places
        and count in full, an assumption: the paper gives no figure of prefill.
        """
        return self._choices_and_touched(tokens)[0]

    def touched(self, tokens: PassTokens) -> float:
        """Return the expected share of the experts that a pass reads: one stays unread with 1 - k/E at each free
        choice."""
        return self._choices_and_touched(tokens)[1]

    def _choices_and_touched(self, tokens: PassTokens) -> tuple[float, float]:
        known = self._known.get(tokens)
        if known is None:
            drafts = tokens.each**self._locality.draft_exponent
            free = free_choices(self.top_share, self._locality.popularity_spread, tokens.sequences)
            choices = free * drafts + tokens.prefill
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
        return self.hits_and_beyond(cached, tokens)[0]

    def hits_and_beyond(self, cached: Number, tokens: PassTokens) -> tuple[Number, Number]:
        """Return `hits`, and the share that the published law has beyond what HB holds, whichever law it is: 0 where
        both are one."""
        read = self.touched(tokens)
        if self._per_layer == 0 or not read:
            return 0.0 * cached, 0.0
        published: Number = self._popular(cached, tokens, read) * self._worthwhile(cached)
        held = cached / read
        served = published if self._law is Law.PUBLISHED else least(published, held)
        return served, most(published - held * ROUNDING, 0.0)

    def _popular(self, cached: Number, tokens: PassTokens, read: float) -> Number:
        """f^a: the cache holds the popular ones. Drafts and prompts saturate: f + (f^a - f) (1 - t^s), as a pass that
        reads all experts (t = 1) can only find the share f that is there."""
        popular: Number = cached**self._locality.hit_exponent
        if tokens.decoding:
            return popular
        if tokens.prefill and tokens.sequences:
            return self._popular_of_both(cached, tokens, read)
        found: Number = cached + (popular - cached) * (1.0 - read**self._locality.saturation_exponent)
        return found

    def _popular_of_both(self, cached: Number, tokens: PassTokens, read: float) -> Number:
        """Prompts beside decoding: what sequences that decode read is found as without them, and what prompts read
        beyond that as by themselves, so that a pass of both never misses more than two passes, as far as HB holds what
        is found: where either finds all of it, so may two passes, and one finds it once. Nor does it miss fewer than
        the prompts alone: at most all that is read beyond theirs is found."""
        decoding, prompts = PassTokens(tokens.sequences, tokens.each), PassTokens(0, 1, tokens.prefill)
        first, alone = self.touched(decoding), self.touched(prompts)
        of_prompts = self._popular(cached, prompts, alone)
        found = self._popular(cached, decoding, first) * first + of_prompts * (read - first)
        both: Number = least(found, of_prompts * alone + read - alone) / read
        return both

    def pool_hits(self, pool: Number) -> Number:
        """Share of the experts that verifying reads that Elastic-SD's pool serves: what share of all it holds.

        The pool was chosen before, for drafting. Fitted to Table 3 with an exponent as an LRU cache has, it does no
        better than by chance when drafts are verified; what hotness is worth shows in the acceptance (Fig. 17a).
        """
        return pool * self._worthwhile(pool)

    def _worthwhile(self, cached: Number) -> Number:
        """Near 0 for a cache whose layers hold but a small share of what one token needs, each evicting the last; else
        near 1."""
        few = self._speculation.least_share_of_top_k * self.top_share / most(cached, SOME)
        worth: Number = 1.0 / (1.0 + few**STEEPNESS)
        return worth
