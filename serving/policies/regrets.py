"""Regret of a mode: the time that a batch would have saved in the other mode, by the device model.

The hot path plans a step in some 100 us, and to price both modes takes longer than that. So batches are told apart only
by what regret turns on, each is asked about once, and the answer is kept, here and, for other devices of the same kind,
by the device model (`serving.policies.token_costs`): how many decode, how many tokens the KV cache holds, which takes
room from the pool and with it acceptance, the share of the slow tier's bandwidth that is granted, for which topics
experts are placed, and what prompts there are to compute beside them (`serving.policies.turnover`).
"""

from functools import lru_cache, partial
from typing import NamedTuple, Protocol

from serving.policies.mode_prices import OF_PROMPTS, bucket
from serving.policies.placed_plan import Mix, coarse
from serving.policies.prompt_load import NO_PROMPTS, Crowd, PromptLoad
from serving.policies.step_option import KV_TOKENS, SHARES, StepModel
from serving.policies.token_costs import KEPT
from serving.policies.turnover import CostQuestion, TokenCost

# The buckets of an octave of answers' lengths.
OF_ANSWERS = 2


class DecodeBatch(NamedTuple):
    """A batch of which `decoding` sequences decode. These have `kv_tokens` in the KV cache, and `prompt_tokens` of
    prompts are computed in the step. It begins at `at_s`, with `ext_bytes_per_s` of the slow tier; its requests tell of
    the `crowd`. Experts are `placed` for a mix of topics, or (None) those used last. Since the last verdict on one the
    device has worked for `worked_s`, which is known to who asks for verdicts, as is the `load` of prompts."""

    decoding: int
    kv_tokens: int
    prompt_tokens: int
    at_s: float
    ext_bytes_per_s: float
    crowd: Crowd = Crowd()
    placed: Mix | None = None
    worked_s: float = 0.0
    load: PromptLoad = NO_PROMPTS


class Regret(NamedTuple):
    """The seconds of decoding that a second of `plain` steps loses against drafting, and one of `drafting` against
    plain steps: at most 1, and below 0 in the better mode."""

    plain: float
    drafting: float

    @staticmethod
    def of(plain_s: float, drafting_s: float) -> "Regret":
        """Return the regret where a token takes so many seconds in either mode."""
        return Regret(1.0 - drafting_s / plain_s, 1.0 - plain_s / drafting_s)


class Regrets(Protocol):
    """Answers what is lost in either mode for a batch, for how many tokens of each sequence that holds, and what a
    token costs later, without prompts: seconds or, `by_energy`, joules, or None if nobody knows."""

    def of(self, batch: DecodeBatch) -> Regret: ...

    def tokens(self, batch: DecodeBatch) -> int: ...

    def token_cost(self, batch: DecodeBatch, by_energy: bool) -> float | None: ...


class RegretTable:
    """The regrets of a device that may draft to any of `depths`, in buckets."""

    def __init__(self, model: StepModel, full_bytes_per_s: float, depths: tuple[int, ...]) -> None:
        """`model` answers what tokens cost; `full_bytes_per_s` is the whole bandwidth of the device's slow tier."""
        self._full_bytes_per_s = full_bytes_per_s
        self._costs = lru_cache(KEPT)(partial(model.token_costs, depths))

    def of(self, batch: DecodeBatch) -> Regret:
        """Return the regret for a batch, drafting to the best depth."""
        plain, drafting = self._costs_of(batch, by_energy=False)
        return Regret.of(plain.whole, drafting.whole)

    def tokens(self, batch: DecodeBatch) -> int:
        """Return the tokens of each sequence until the KV cache has grown into the next bucket."""
        return -(-(KV_TOKENS - batch.kv_tokens % KV_TOKENS) // batch.decoding)

    def token_cost(self, batch: DecodeBatch, by_energy: bool) -> float:
        """Return what a token costs later, in the better mode: seconds, or joules."""
        return max(0.0, min(self._costs_of(batch, by_energy)).decoding)

    def _costs_of(self, batch: DecodeBatch, by_energy: bool) -> list[TokenCost]:
        share = max(1, round(SHARES * batch.ext_bytes_per_s / self._full_bytes_per_s))
        kv, load, mix = batch.kv_tokens // KV_TOKENS, _alike(batch.load), coarse(batch.placed)
        return self._costs(CostQuestion(batch.decoding, kv, share, load, by_energy, mix))


def _alike(load: PromptLoad) -> PromptLoad:
    """Return what stands for the loads of a bucket."""
    answer = bucket(load.answer, OF_ANSWERS)
    if not load.ratio:
        return PromptLoad(answer)
    ratio, prompt, beside, most = (bucket(each, OF_PROMPTS) for each in load[1:5])
    return PromptLoad(answer, ratio, prompt, beside, most, load.crowd, load.drafting)
