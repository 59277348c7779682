"""Regret of a mode: the time that a batch would have saved in the other mode, by the device model.

The hot path plans a step in some 100 us, and to price both modes takes longer than that. So batches are told apart only
by what regret turns on, each is asked about once, and the answer is kept: how many decode, how many tokens the KV cache
holds, which takes room from the pool and with it acceptance, how many of a prompt are computed beside them, and the
share of the slow tier's bandwidth that is granted.
"""

from math import log2
from typing import NamedTuple, Protocol

import numpy as np

from device_model.step import StepPlan
from serving.policies.step_options import KV_TOKENS, PLAIN, SHARES, StepOption, StepOptions

# Width of the buckets of a prompt's tokens: half an octave.
OCTAVES = 0.5


class DecodeBatch(NamedTuple):
    """A batch of which `decoding` sequences decode. All of it has `kv_tokens` in the KV cache, and `prompt_tokens` of
    prompts are computed in the step. It begins at `at_s`, with `ext_bytes_per_s` of the slow tier; since the last
    verdict on one the device has worked for `worked_s`, which is known to who asks for verdicts, as is `prompt_share`:
    of late, the share of its decoding time in which it computed prompts, too."""

    decoding: int
    kv_tokens: int
    prompt_tokens: int
    at_s: float
    ext_bytes_per_s: float
    worked_s: float = 0.0
    prompt_share: float = 0.0


class Regret(NamedTuple):
    """The seconds of decoding that a second of `plain` steps loses against drafting, and one of `drafting` against
    plain steps: at most 1, and below 0 in the better mode."""

    plain: float
    drafting: float


class Regrets(Protocol):
    """Answers what is lost in either mode for a batch, for how many plain steps that holds, and what a token costs
    later: seconds or, `by_energy`, joules."""

    def of(self, batch: DecodeBatch) -> Regret: ...

    def steps(self, batch: DecodeBatch) -> int: ...

    def token_cost(self, batch: DecodeBatch, by_energy: bool) -> float: ...


class RegretTable:
    """The regrets of a device that may draft to any of `depths`, in buckets."""

    def __init__(self, options: StepOptions, depths: tuple[int, ...]) -> None:
        self._options, self._depths = options, (PLAIN, *depths)
        self._known: dict[tuple[int, int, int, int], Regret] = {}
        self._costs: dict[tuple[int, int, int, bool], float] = {}
        self._costs_beside: dict[tuple[int, int, int, int, bool], float] = {}

    def of(self, batch: DecodeBatch) -> Regret:
        """Return the regret for a batch, drafting to the best depth."""
        prompt = _bucket(batch.prompt_tokens) if batch.prompt_tokens else 0
        key = (batch.decoding, batch.kv_tokens // KV_TOKENS, prompt, self._share(batch))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._asked(*key)
        return known

    def steps(self, batch: DecodeBatch) -> int:
        """Return the number of plain steps until the KV cache has grown into the next bucket."""
        return -(-(KV_TOKENS - batch.kv_tokens % KV_TOKENS) // batch.decoding)

    def token_cost(self, batch: DecodeBatch, by_energy: bool) -> float:
        """Return what a token costs later, in the best way: seconds, or joules.

        With no prompts to come it is what decoding takes. In a backlog of them it is decoded beside the next one, which
        takes little more than that prompt: so it is one or the other, by the share of time in which there are prompts.
        """
        kv, slow = batch.kv_tokens // KV_TOKENS, self._share(batch)
        alone = self._token_cost(batch.decoding, kv, slow, by_energy)
        if not (batch.prompt_share and batch.prompt_tokens):
            return alone
        beside = self._cost_beside(batch.decoding, kv, _bucket(batch.prompt_tokens), slow, by_energy)
        return batch.prompt_share * beside + (1.0 - batch.prompt_share) * alone

    def _share(self, batch: DecodeBatch) -> int:
        return max(1, round(SHARES * batch.ext_bytes_per_s / self._options.device.ext_bytes_per_s))

    def _asked(self, decoding: int, kv: int, prompt: int, share: int) -> Regret:
        if not prompt:
            return regret(*self._best(_decoding(decoding, _context(decoding, kv)), share))
        token_s = self._token_cost(decoding, kv, share, by_energy=False)
        return regret_beside(*self._best(_with_prompt(decoding, kv, prompt), share, token_s), token_s)

    def _token_cost(self, decoding: int, kv: int, share: int, by_energy: bool) -> float:
        key = (decoding, kv, share, by_energy)
        known = self._costs.get(key)
        if known is None:
            # Whose prompt it is decodes with the others then: at a tau of 2 that is another rate than without him.
            ways = self._priced(_decoding(decoding + 1, _context(decoding, kv)), share)
            known = self._costs[key] = 1.0 / max(option.worth(by_energy) for option in ways)
        return known

    def _cost_beside(self, decoding: int, kv: int, prompt: int, share: int, by_energy: bool) -> float:
        """Return what a token adds to the step of a prompt, in the best way."""
        key = (decoding, kv, prompt, share, by_energy)
        known = self._costs_beside.get(key)
        if known is None:
            tokens = np.array([_tokens(prompt)])
            [lone] = self._priced(StepPlan(tokens, np.zeros_like(tokens)), share, (PLAIN,))
            ways = self._priced(_with_prompt(decoding, kv, prompt), share)
            known = self._costs_beside[key] = min(
                max(0.0, way.cost(by_energy) - lone.cost(by_energy)) / way.tokens for way in ways
            )
        return known

    def _best(self, plan: StepPlan, share: int, token_s: float = 0.0) -> tuple[StepOption, StepOption]:
        """Return the plain option, and that of the best depth."""
        plain, *drafting = self._priced(plan, share)
        most = max(option.tokens for option in drafting)
        return plain, max(drafting, key=lambda option: option.worth(False, token_s, most))

    def _priced(self, plan: StepPlan, share: int, depths: tuple[int, ...] = ()) -> list[StepOption]:
        ext_bytes_per_s = share / SHARES * self._options.device.ext_bytes_per_s
        return self._options.price(plan, 1, ext_bytes_per_s, depths or self._depths)


def _bucket(prompt_tokens: int) -> int:
    return 1 + round(log2(prompt_tokens) / OCTAVES)


def _tokens(prompt: int) -> int:
    return round(2 ** ((prompt - 1) * OCTAVES))


def _with_prompt(decoding: int, kv: int, prompt: int) -> StepPlan:
    """Return a batch beside which a prompt of a bucket is computed."""
    plan = _decoding(decoding, _context(decoding, kv))
    return StepPlan(np.append(plan.new_tokens, _tokens(prompt)), np.append(plan.context, 0))


def _context(decoding: int, kv: int) -> int:
    """Return the context of sequences that have `kv` buckets of the KV cache together."""
    return round((kv + 0.5) * KV_TOKENS / decoding)


def _decoding(sequences: int, context: int) -> StepPlan:
    return StepPlan(np.ones(sequences, dtype=np.int64), np.full(sequences, context, dtype=np.int64))


def regret(plain: StepOption, drafting: StepOption) -> Regret:
    """Return the regret where all decode: the other mode would give the same tokens in another time."""
    speedup = drafting.tokens_per_s / plain.tokens_per_s
    return Regret(1.0 - 1.0 / speedup, 1.0 - speedup)


def regret_beside(plain: StepOption, drafting: StepOption, token_s: float) -> Regret:
    """Return the regret in a step that computes a prompt too, which takes its time in either mode: tokens more are
    worth what decoding them afterwards would take, `token_s` seconds each."""
    saved_s = (drafting.tokens - plain.tokens) * token_s - (drafting.step_s - plain.step_s)
    return Regret(min(1.0, saved_s / plain.step_s), min(1.0, -saved_s / drafting.step_s))
