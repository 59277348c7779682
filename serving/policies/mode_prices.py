"""Mode prices: what steps of a mode cost for batches that are told apart by buckets, each asked about once."""

from functools import lru_cache
from math import log2
from typing import NamedTuple

import numpy as np

from device_model.step import StepPlan
from serving.policies.placed_plan import Mix, placed
from serving.policies.step_option import KV_TOKENS, PLAIN, SHARES, StepModel, StepOption
from serving.policies.turnover import StepPrice

# The buckets of an octave of a prompt's tokens.
OF_PROMPTS = 4
KEPT = 65536


class ModePrices:
    """The prices of plain steps, or of steps that draft to the best of `depths`, in seconds or, `by_energy`, joules.

    `full_bytes_per_s` is the whole bandwidth of the slow tier."""

    def __init__(self, model: StepModel, full_bytes_per_s: float, depths: tuple[int, ...], by_energy: bool) -> None:
        self._model, self._full_bytes_per_s = model, full_bytes_per_s
        self._depths, self._by_energy = depths, by_energy
        self._best = lru_cache(KEPT)(self._asked_best)
        self.step = lru_cache(KEPT)(self._asked)
        self.prompts = lru_cache(KEPT)(self._asked_prompts)

    def _asked(self, decoding: int, kv: int, share: int, prompt_tokens: int, mix: Mix | None) -> StepPrice:
        """Return the price where `decoding` sequences have `kv` buckets of the KV cache together, and experts are
        placed for a mix of topics, if they are."""
        option = self._best(decoding, kv, share, mix)
        if prompt_tokens:
            [option] = self._priced(placed(_decoding(decoding, kv, prompt_tokens), mix), share, (option.depth,))
        return StepPrice(option.cost(self._by_energy), option.tokens / decoding)

    def _asked_best(self, decoding: int, kv: int, share: int, mix: Mix | None) -> StepOption:
        ways = self._priced(placed(_decoding(decoding, kv), mix), share, self._depths)
        return max(ways, key=lambda option: option.worth(self._by_energy))

    def _asked_prompts(self, share: int, prompt_tokens: int, mix: Mix | None) -> float:
        plan = StepPlan(np.array([prompt_tokens]), np.zeros(1, dtype=np.int64))
        return self._priced(placed(plan, mix), share, (PLAIN,))[0].cost(self._by_energy)

    def _priced(self, plan: StepPlan, share: int, depths: tuple[int, ...]) -> list[StepOption]:
        return self._model.price(plan, 1, share / SHARES * self._full_bytes_per_s, depths)


class PricesAt(NamedTuple):
    """The prices of a mode for sequences of a `context` each, with a `share` of the slow tier's bandwidth, and experts
    placed for a `mix` of topics, if they are."""

    mode: ModePrices
    context: float
    share: int
    mix: Mix | None = None

    def step(self, decoding: int, prompt_tokens: float) -> StepPrice:
        """Return the price of a step in which `decoding` sequences decode beside `prompt_tokens` of prompts."""
        kv = int(decoding * self.context) // KV_TOKENS
        return self.mode.step(decoding, kv, self.share, _prompt_bucket(prompt_tokens), self.mix)

    def prompts(self, prompt_tokens: float) -> float:
        """Return the cost of a step of prompts only."""
        return self.mode.prompts(self.share, _prompt_bucket(prompt_tokens), self.mix)


def bucket(value: float, of_octave: int) -> float:
    """Return what stands for all values of a bucket, `of_octave` of which make an octave; 0 for 0."""
    return 2 ** (round(of_octave * log2(value)) / of_octave) if value else 0.0


def _prompt_bucket(tokens: float) -> int:
    """Return how many tokens of prompts stand for so many; one at least for any."""
    return max(1, round(bucket(tokens, OF_PROMPTS))) if tokens else 0


def _decoding(sequences: int, kv: int, prompt_tokens: int = 0) -> StepPlan:
    context = round((kv + 0.5) * KV_TOKENS / sequences)
    new, each = np.ones(sequences, dtype=np.int64), np.full(sequences, context, dtype=np.int64)
    if not prompt_tokens:
        return StepPlan(new, each)
    # A bucket of prompts may be of a single token, which decodes nothing either.
    return StepPlan(np.append(new, prompt_tokens), np.append(each, 0), decoding=np.arange(sequences))
