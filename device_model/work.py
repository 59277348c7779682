"""What a step of a model moves and computes, whatever the hardware: bytes by part and multiply-accumulates (MACs)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from device_model.arrays import Number
from device_model.spec import BITS_PER_BYTE, GQA, Model
from device_model.step import FloatArray, IntArray, StepPlan
from device_model.weights import Weights


@dataclass(frozen=True, slots=True)
class ModelSize:
    """How large the parts of a model are, over all its layers, and the MACs that they take. `of` makes one.

    Static weights are those that every token needs: attention, router, norms, shared experts, dense MLPs, embedding and
    LM head. Weights take part in one MAC a token, wherever MLA has them absorbed (see `attention_macs`).
    """

    weights: Weights
    static_bytes: float
    static_read_bytes: float  # all static weights but the embedding table, of which a token reads one row
    kv_bytes_per_token: float  # within the window, if there is one
    expert_bytes: float  # one expert of one layer
    experts: int  # of all layers
    experts_per_layer: int
    top_k: int
    static_macs_per_token: float
    expert_macs_per_token: float
    pair_macs: float  # a query against one key, and its weight on one value, in all heads
    expanded_pair_macs: float  # the same with the keys and values of MLA expanded from its latents
    head_macs_per_sequence: float  # logits, of the last token only
    window: int  # tokens that a windowed layer attends to
    windowed: float  # share of the layers that have a window, 0 to 1

    @staticmethod
    @lru_cache
    def of(model: Model) -> "ModelSize":
        weights = Weights.of(model)
        kv_values, pair_macs, expanded_pair_macs = _kv_and_pairs(model)
        return ModelSize(
            weights=weights,
            static_bytes=weights.static_held * model.static_bytes_per_weight,
            static_read_bytes=weights.static_read * model.static_bytes_per_weight,
            kv_bytes_per_token=kv_values * model.layers * model.kv_bytes_per_value,
            expert_bytes=weights.expert * model.expert_bytes_per_weight,
            experts=weights.experts,
            experts_per_layer=model.experts,
            top_k=model.top_k,
            static_macs_per_token=weights.body,
            expert_macs_per_token=weights.expert * model.top_k * model.expert_layers,
            pair_macs=pair_macs * model.layers,
            expanded_pair_macs=expanded_pair_macs * model.layers,
            head_macs_per_sequence=weights.table,
            window=model.sliding_window,
            windowed=model.sliding_window_layers / model.layers,
        )

    @property
    def touch_share(self) -> float:
        """Share of a layer's experts that one token asks for; 0 in a dense model."""
        return self.top_k / self.experts_per_layer if self.experts_per_layer else 0.0

    @property
    def experts_bytes(self) -> float:
        """All experts of all layers."""
        return self.expert_bytes * self.experts

    def static_bytes_at(self, bits: float) -> float:
        """`static_bytes` with `bits` a static weight, as of a draft that keeps a smaller copy."""
        return self.weights.static_held * bits / BITS_PER_BYTE

    def static_read_bytes_at(self, bits: float) -> float:
        """`static_read_bytes` with `bits` a static weight, as of a draft that reads only their upper bits."""
        return self.weights.static_read * bits / BITS_PER_BYTE

    def expert_share(self, held_bytes: Number) -> Number:
        """Which share of all experts `held_bytes` are; 0 in a dense model."""
        return held_bytes / self.experts_bytes if self.experts else held_bytes * 0.0

    def static_macs(self, work: "StepWork") -> float:
        """Projections, router, shared experts and dense MLPs of every token, and logits where they are asked for."""
        return self.static_macs_per_token * work.tokens + self.head_macs_per_sequence * work.logits

    def expert_macs(self, work: "StepWork") -> float:
        """The routed experts of every token."""
        return self.expert_macs_per_token * work.tokens

    def attention_macs(self, work: "StepWork") -> Number:
        """Scores and weighted values [k].

        MLA has two forms, and a serving engine uses both. Absorbed, queries meet the latents themselves: the way up is
        multiplied into query and output, and a pair takes kv_lora_rank MACs where a head has less. Expanded, each
        latent of the context goes up first and pairs are short. Each sequence is given the cheaper: absorbed to decode,
        expanded to prefill. The way up of the new tokens takes the same MACs in both, and is among the static ones.
        """
        # Expanding never pays for one new token, but for the first of all.
        if self.expanded_pair_macs and not self._absorbed_is_cheaper(work):
            return self._cheaper_mla_macs(work)
        if not self.windowed:
            return self.pair_macs * work.pairs
        return self.pair_macs * (work.pairs - self.windowed * work.pairs_beyond(self.window))

    def kv_held_bytes(self, work: "StepWork") -> Number:
        """What the KV cache holds at the end of each step [k]: of a windowed layer the last `window` tokens."""
        if not self.windowed:
            return work.kv_tokens * self.kv_bytes_per_token
        return (work.kv_tokens - self.windowed * work.held_beyond(self.window)) * self.kv_bytes_per_token

    def kv_read_bytes(self, work: "StepWork") -> Number:
        """Keys and values that attention reads [k], each once, the new ones too.

        A windowed layer reads `window` tokens to decode one, and one more for each further new token.
        """
        if not self.windowed:
            return work.kv_tokens * self.kv_bytes_per_token
        return (work.kv_tokens - self.windowed * work.read_beyond(self.window)) * self.kv_bytes_per_token

    def kv_traffic_bytes(self, work: "StepWork") -> Number:
        """What attention moves [k]: the keys and values that it reads, and the new ones written before."""
        return self.kv_read_bytes(work) + work.tokens * self.kv_bytes_per_token

    def kv_bytes(self, contexts: IntArray) -> FloatArray:
        """KV cache [...] of sequences that are `contexts` [..., n] tokens long: what it holds, and the last token of
        each reads."""
        tokens = contexts.sum(axis=-1, dtype=np.float64)
        if self.windowed:
            tokens = tokens - self.windowed * np.maximum(contexts - self.window, 0).sum(axis=-1)
        held: FloatArray = tokens * self.kv_bytes_per_token
        return held

    def _absorbed_is_cheaper(self, work: "StepWork") -> bool:
        """Whether it surely is for every sequence: of n new tokens it saves the way up of c tokens of context, and
        costs some more for each of n c + n (n + 1) / 2 pairs."""
        if not work.uniform:
            return False
        new, more = work.drafts, self.pair_macs - self.expanded_pair_macs
        saved = self.weights.latent_up - new * more
        return saved > 0 and work.shortest * saved >= more * new * (new + 1) / 2

    def _cheaper_mla_macs(self, work: "StepWork") -> Number:
        contexts = work.contexts()
        pairs = work.new * contexts + work.new * (work.new + 1) // 2
        expanded = self.expanded_pair_macs * pairs + self.weights.latent_up * contexts
        macs: Number = np.minimum(self.pair_macs * pairs, expanded).sum(axis=-1)
        return macs


def _kv_and_pairs(model: Model) -> tuple[int, int, int]:
    """Of one layer: KV values of a token, MACs of a pair, and of an expanded one (0 with GQA)."""
    if model.attention == GQA:
        return 2 * model.kv_heads * model.head_dim, 2 * model.q_heads * model.head_dim, 0
    absorbed = 2 * model.kv_lora_rank + model.qk_rope_head_dim
    expanded = model.qk_nope_head_dim + model.qk_rope_head_dim + model.v_head_dim
    return model.kv_lora_rank + model.qk_rope_head_dim, model.q_heads * absorbed, model.q_heads * expanded


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
    decoding: int  # sequences that compute one token, or the drafts that follow upon it
    shortest: int  # tokens of the shortest sequence before the first step
    drafts: int = 1  # tokens that each of these computes

    @staticmethod
    def of(plan: StepPlan, steps: int) -> "StepWork":
        """The closed form of `steps` steps: after i of them each context has grown by i times its new tokens.

        ValueError if there are no steps, no sequences, no token for a sequence or a negative context.
        """
        new, context = plan.new_tokens, plan.context
        if steps < 1:
            raise ValueError(f"steps is {steps}; a probe needs at least 1")
        if not len(new):
            raise ValueError("The plan is empty; a probe needs at least one sequence")
        tokens, squares, before = int(new.sum()), int(new @ new), int(context.sum())
        plain = tokens == squares == len(new)  # all are 1: what is left to ask is asked of the others only
        shortest = int(context.min())
        if (not plain and new.min() < 1) or shortest < 0:
            raise ValueError("The plan has a sequence with less than 1 new token or a context below 0")
        # Query i of n new tokens sees the context and the i tokens up to itself: n c + n (n + 1) / 2 pairs in all.
        pairs = (before if plain else int(new @ context)) + (squares + tokens) / 2
        decoding = len(new) if plain else int((new == 1).sum())
        if steps == 1:  # plain numbers: what follows is much quicker with them
            return StepWork(
                tokens, len(new), float(before + tokens), pairs, new, context, {}, len(new), decoding, shortest
            )
        step = np.arange(steps, dtype=np.float64)
        kv_tokens, grown = before + tokens * (step + 1), pairs + squares * step
        return StepWork(tokens, len(new), kv_tokens, grown, new, context, {}, len(new), decoding, shortest)

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
        decodes = self.new == 1
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
        """Whether it is a single step in which all sequences decode, so that sums over them have a closed form."""
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


@lru_cache(maxsize=1024)
def _repeated(sequences: int, each: int) -> IntArray:
    """The same for all sequences [n]; not to be written to."""
    repeated = np.full(sequences, each, dtype=np.int64)
    repeated.flags.writeable = False
    return repeated


def _beyond(tokens: IntArray) -> IntArray:
    return np.maximum(tokens, 0)


def _total(of_sequences: IntArray) -> Number:
    """The sum [k] over the sequences of [k, n], or that of [n]."""
    total: Number = np.add.reduce(of_sequences, axis=-1, dtype=np.float64)
    return total
