"""Turnover: what a token costs in one mode, with its share of the prompts, once the batch has become what that mode
makes of it.

A request that ends brings the next one's prompt. So over a while a device computes `ratio` tokens of prompts for each
token that it decodes, in whatever mode, and the better mode takes less time for both. The step at hand does not tell
which: beside a prompt plain decoding has tokens nearly for nothing, as long as there is a next prompt to have more
beside; and drafts that end requests sooner leave fewer of them in the batch, if prompts fill the steps.

Of a batch b, of which each sequence has `a` tokens a step, `ratio` a b tokens of prompts are due in each. Where that is
more than a step takes (`most`) the batch shrinks to most / (ratio a): no more can have begun. Where it is less than one
prompt, some steps have none. In the present mode steps with prompts have as many tokens of them as was seen; in the
other one requests end independently of each other, so that steps without prompts are exp(-prompts due): Poisson's.

What a step has beyond a request's end is lost: of the last one half on average, so that an answer of n tokens takes
(n + (a - 1) / 2) / a steps.
"""

from math import exp
from typing import NamedTuple, Protocol

from serving.policies.placed_plan import Mix
from serving.policies.prompt_load import PromptLoad

ROUNDS = 6
"""In which the batch comes to rest: acceptance depends on how much of the KV cache it takes, and it on acceptance."""


class StepPrice(NamedTuple):
    """The cost of a step (seconds, or joules), and the tokens that each decoding sequence has of it."""

    cost: float
    tokens: float


class StepPrices(Protocol):
    """Prices the steps of a mode."""

    def step(self, decoding: int, prompt_tokens: float) -> StepPrice:
        """Return the price of a step in which `decoding` sequences decode beside `prompt_tokens` of prompts."""
        ...

    def prompts(self, prompt_tokens: float) -> float:
        """Return the cost of a step of prompts only."""
        ...


class TokenCost(NamedTuple):
    """What a token costs with its share of the prompts (`whole`), and without (`decoding`): seconds, or joules."""

    whole: float
    decoding: float


class CostQuestion(NamedTuple):
    """A batch as regret tells it apart: `decoding` sequences with `kv` buckets of the KV cache together, a `share` of
    the slow tier's bandwidth, a `load` of prompts, and experts placed for a `mix` of topics, if they are. Costs are
    joules if asked for `by_energy`, else seconds."""

    decoding: int
    kv: int
    share: int
    load: PromptLoad
    by_energy: bool
    mix: Mix | None


def token_cost(prices: StepPrices, decoding: int, load: PromptLoad, drafting: bool) -> TokenCost:
    """Return what a token costs in the mode of `prices` (`drafting` or not), from a batch of `decoding` on."""
    batch = _batch(prices, decoding, load)
    whole = max(1, round(batch))
    alone = prices.step(whole, 0)
    tokens = batch * _kept(alone.tokens, load)
    if not load.ratio:
        return TokenCost(alone.cost / tokens, alone.cost / tokens)
    # Less than one decodes where prompts are all there is, and takes less than one does.
    part = min(1.0, batch / whole)
    due, present = min(load.most, load.ratio * tokens), drafting == load.drafting
    share, beside = _beside(load, due, present)
    lone = prices.prompts(beside)
    step = share * (lone + (prices.step(whole, beside).cost - lone) * part) + (1.0 - share) * alone.cost
    return TokenCost(step / tokens, step / tokens - load.ratio * _prompt_cost(prices, load, due, present))


def _prompt_cost(prices: StepPrices, load: PromptLoad, due: float, present: bool) -> float:
    """Return what one more token of prompts costs: where they fill each step, its part of such a step; else less, as
    prompts that are computed together read experts once."""
    if due >= load.most:
        return prices.prompts(load.most) / load.most

    def cost(due: float) -> float:
        share, beside = _beside(load, due, present)
        return share * prices.prompts(beside)

    less = due / 2
    return (cost(due) - cost(less)) / less


def _batch(prices: StepPrices, decoding: int, load: PromptLoad) -> float:
    """Return the batch that the mode makes of one of `decoding`."""
    if not load.ratio:
        return decoding
    batch = float(decoding)
    for _ in range(ROUNDS):
        before, tokens = batch, _kept(prices.step(max(1, round(batch)), 0).tokens, load)
        batch = min(float(load.crowd), load.most / (load.ratio * tokens))
        if abs(batch - before) < 0.5:
            break
    return batch


def _kept(tokens: float, load: PromptLoad) -> float:
    """Return how many of a sequence's `tokens` a step are within its answer."""
    return tokens * load.answer / (load.answer + (tokens - 1.0) / 2) if load.answer else tokens


def _beside(load: PromptLoad, due: float, present: bool) -> tuple[float, float]:
    """Return the share of steps with prompts, and their tokens in one, where `due` are due in each on average."""
    if due >= load.most:
        return 1.0, load.most
    share = min(1.0, due / load.beside) if present else 1.0 - exp(-due / load.prompt)
    share = max(share, due / load.most)
    return share, due / share
