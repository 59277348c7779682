"""The work of a step: how many tokens of how many sequences, over how much context; in closed form over steps."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from device_model.arrays import Number
from device_model.step import BoolArray, IntArray, StepPlan


class StepWork(NamedTuple):
    """The work of `k` consecutive steps of one batch of `n` sequences; `kv_tokens` and `pairs` are [k], or plain
    numbers of a single step: only they grow.

    What lies beyond a window, and which form of MLA is cheaper, is not linear in the steps; `contexts` [k, n] and what
    follows from it are worked out only for the models that need them.
    """

    tokens: int  # computed in each step
    sequences: int
    kv_tokens: Number  # in the KV cache at the end of the step, were there no window; attention reads each once
    pairs: Number  # (query, key) pairs under the causal mask
    new: IntArray  # [n] tokens of each sequence in each step
    context: IntArray  # [n] tokens of each sequence before the first step
    known: dict[int, Number]  # by window, what `held_beyond` has worked out: a decode step asks three times
    logits: int  # tokens whose logits are wanted: the last of each sequence, and every draft
    decoding: int  # sequences that compute one token behind their last, or the drafts that follow upon it
    shortest: int  # tokens of the shortest sequence before the first step
    drafts: int = 1  # tokens that each of these computes
    decodes: BoolArray | None = None  # [n] whether it is one of them; None: if it computes one token
    earlier: float = 0.0  # drafted tokens of earlier passes that attention reads beside `kv_tokens`, of all sequences

    @staticmethod
    def of(plan: StepPlan, steps: int) -> "StepWork":
        """Return the closed form of `steps` steps: after i of them each context has grown by i times its new tokens.

        Raise ValueError if there are no steps, no sequences, no token for a sequence or a negative context.
        """
        decoding = None if plan.decoding is None else _bytes(plan.decoding)
        return _work(_bytes(plan.new_tokens), _bytes(plan.context), decoding, steps)

    def drafted(self, each: int, prefill: bool) -> "StepWork":
        """One step in which every sequence that decodes computes `each` tokens; the others take part if `prefill`."""
        if self.decoding < self.sequences:
            return self._drafted_among_prompts(each, prefill)
        tokens, before = each * self.sequences, self.kv_tokens - self.sequences
        pairs = each * before + self.sequences * (each * (each + 1) / 2)
        new = _repeated(self.sequences, each)
        return StepWork(
            tokens,
            self.sequences,
            before + tokens,
            pairs,
            new,
            self.context,
            {},
            tokens,
            self.decoding,
            self.shortest,
            each,
        )

    def _drafted_among_prompts(self, each: int, prefill: bool) -> "StepWork":
        decodes = self.new == 1 if self.decodes is None else self.decodes
        new, context = np.where(decodes, each, self.new), self.context
        if not prefill:
            new, context = new[decodes], context[decodes]
        work = StepWork.of(StepPlan(new, context), 1)
        logits = work.sequences + self.decoding * (each - 1)
        return work._replace(logits=logits, decoding=self.decoding, drafts=each)

    @property
    def prefill_tokens(self) -> int:
        """Tokens of prompts."""
        return self.tokens - self.decoding * self.drafts

    @property
    def longest(self) -> int:
        """New tokens of the sequence that has most."""
        return 1 if self.tokens == self.sequences else int(self.new.max())

    @property
    def uniform(self) -> bool:
        """Tell whether it is a single step in which all sequences decode, so that sums over them have a closed form."""
        return self.decoding == self.sequences and not isinstance(self.kv_tokens, np.ndarray)

    def contexts(self) -> IntArray:
        """Tokens of each sequence before each step [k, n]; [n] of a single step."""
        if not isinstance(self.kv_tokens, np.ndarray):
            return self.context
        return self.context + np.arange(len(self.kv_tokens))[:, np.newaxis] * self.new

    def held_beyond(self, window: int) -> Number:
        """Tokens [k] that lie more than `window` before the end of their sequence when a step ends."""
        if self.uniform and self.shortest >= window:
            return self.kv_tokens - self.sequences * window
        if window not in self.known:
            self.known[window] = _total(_beyond(self.contexts() + (self.new - window)))
        return self.known[window]

    def read_beyond(self, window: int) -> Number:
        """Tokens [k] that lie outside the window of every query of a step."""
        if self.longest == 1:
            return self.held_beyond(window)
        if self.uniform and self.shortest >= window:
            return self.kv_tokens - self.sequences * (window + self.drafts - 1)
        return _total(_beyond(self.contexts() + (1 - window)))

    def pairs_beyond(self, window: int) -> Number:
        """(Query, key) pairs [k] that lie more than `window` apart."""
        if self.longest == 1:
            return self.held_beyond(window)
        if self.uniform and self.shortest >= window:
            return self.pairs - self.tokens * window
        before = _beyond(self.contexts() - window)
        after = _beyond(self.contexts() + (self.new - window))
        # The query at position p misses p - window keys: the sum of 1, 2, 3, ... up to the last, less those before.
        return _total((after * (after + 1) - before * (before + 1)) // 2)


@lru_cache(maxsize=256)
def _work(new_tokens: bytes, contexts: bytes, among: bytes | None, steps: int) -> StepWork:
    """Return what `StepWork.of` does: a step that drafts asks three times, and a fit each time that it tries figures.
    `among` are the sequences that decode."""
    new, context = np.frombuffer(new_tokens, dtype=np.int64), np.frombuffer(contexts, dtype=np.int64)
    if steps < 1:
        raise ValueError(f"steps is {steps}; a probe needs at least 1")
    if not len(new):
        raise ValueError("The plan is empty; a probe needs at least one sequence")
    tokens, squares = _sums(new_tokens)
    before = int(np.add.reduce(context))
    plain = tokens == squares == len(new)  # all are 1: what is left to ask is asked of the others only
    shortest = int(np.minimum.reduce(context))
    if (not plain and new.min() < 1) or shortest < 0:
        raise ValueError("The plan has a sequence with less than 1 new token or a context below 0")
    # Query i of n new tokens sees the context and the i tokens up to itself: n c + n (n + 1) / 2 pairs in all.
    pairs: Number = (before if plain else int(new @ context)) + (squares + tokens) / 2
    decodes = None if among is None else StepPlan(new, context, decoding=np.frombuffer(among, dtype=np.int64)).decodes
    decoding = int(decodes.sum()) if decodes is not None else len(new) if plain else int((new == 1).sum())
    if steps == 1:  # plain numbers: what follows is much quicker with them
        kv_tokens: Number = float(before + tokens)
    else:
        step = np.arange(steps, dtype=np.float64)
        kv_tokens, pairs = before + tokens * (step + 1), pairs + squares * step
    return StepWork(tokens, len(new), kv_tokens, pairs, new, context, {}, len(new), decoding, shortest, decodes=decodes)


def _bytes(numbers: IntArray) -> bytes:
    return (numbers if numbers.dtype == np.int64 else numbers.astype(np.int64)).tobytes()


def all_decode(plan: StepPlan) -> bool:
    """Tell whether each sequence of a plan decodes, and computes one token."""
    if plan.decoding is not None and not plan.decodes.all():
        return False
    tokens, squares = _sums(_bytes(plan.new_tokens))
    return tokens == squares == len(plan.new_tokens)


@lru_cache(maxsize=4096)
def _sums(new_tokens: bytes) -> tuple[int, int]:
    """Return the sum of new tokens and that of their squares: the same at every step of a batch that decodes."""
    new = np.frombuffer(new_tokens, dtype=np.int64)
    return int(new.sum()), int(new @ new)


@lru_cache(maxsize=1024)
def _repeated(sequences: int, each: int) -> IntArray:
    """Return the number `each` for all sequences [n]; not to be written to."""
    repeated = np.full(sequences, each, dtype=np.int64)
    repeated.flags.writeable = False
    return repeated


def _beyond(tokens: IntArray) -> IntArray:
    return np.maximum(tokens, 0)


def _total(of_sequences: IntArray) -> Number:
    """Return the sum [k] over the sequences of [k, n], or that of [n]."""
    total: Number = np.add.reduce(of_sequences, axis=-1, dtype=np.float64)
    return total
