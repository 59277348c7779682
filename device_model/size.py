"""Model size, and the work of a step, whatever the hardware: bytes by part, and MACs."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from device_model.arrays import Number
from device_model.specs.spec import BITS_PER_BYTE, GQA, Model
from device_model.weights import Weights
from device_model.work import StepWork


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
    def sums_suffice(self) -> bool:
        """Tell whether what sequences that decode ask for follows from the sum of their contexts."""
        return not self.windowed and not self.expanded_pair_macs

    @property
    def experts_bytes(self) -> float:
        """All experts of all layers."""
        return self.expert_bytes * self.experts

    def static_read_bytes_at(self, bits: float) -> float:
        """`static_read_bytes` with `bits` a static weight, as of a draft that reads only their upper bits."""
        return self.weights.static_read * bits / BITS_PER_BYTE

    def expert_share(self, held_bytes: Number) -> Number:
        """Which share of all experts `held_bytes` are; 0 in a dense model."""
        return held_bytes / self.experts_bytes if self.experts else held_bytes * 0.0

    def static_macs(self, work: StepWork) -> float:
        """Projections, router, shared experts and dense MLPs of every token, and logits where they are asked for."""
        return self.static_macs_per_token * work.tokens + self.head_macs_per_sequence * work.logits

    def expert_macs(self, work: StepWork) -> float:
        """Return the MACs of the routed experts of every token."""
        return self.expert_macs_per_token * work.tokens

    def attention_macs(self, work: StepWork) -> Number:
        """Scores and weighted values [k].

        MLA has two forms, and a serving engine uses both. Absorbed, queries meet the latents themselves: the way up is
        multiplied into query and output, and a pair takes kv_lora_rank MACs where a head has less. Expanded, each
        latent of the context goes up first and pairs are short. Each sequence is given the cheaper: absorbed to decode,
        expanded to prefill. The way up of the new tokens takes the same MACs in both, and is among the static ones.
        """
        # Expanding never pays for one new token, but for the first of all.
        earlier = self.pair_macs * work.earlier * work.drafts
        if self.expanded_pair_macs and not self._absorbed_is_cheaper(work):
            return self._cheaper_mla_macs(work) + earlier
        if not self.windowed:
            return self.pair_macs * work.pairs + earlier
        return self.pair_macs * (work.pairs - self.windowed * work.pairs_beyond(self.window)) + earlier

    def kv_held_bytes(self, work: StepWork) -> Number:
        """Return the bytes that the KV cache holds at the end of each step [k]: of a windowed layer the last `window`
        tokens."""
        if not self.windowed:
            return work.kv_tokens * self.kv_bytes_per_token
        return (work.kv_tokens - self.windowed * work.held_beyond(self.window)) * self.kv_bytes_per_token

    def kv_read_bytes(self, work: StepWork) -> Number:
        """Keys and values that attention reads [k], each once, the new ones too.

        A windowed layer reads `window` tokens to decode one, and one more for each further new token. A draft's tree is
        never deeper than a window.
        """
        if not self.windowed:
            return (work.kv_tokens + work.earlier) * self.kv_bytes_per_token
        read = work.kv_tokens - self.windowed * work.read_beyond(self.window)
        return (read + work.earlier) * self.kv_bytes_per_token

    def kv_traffic_bytes(self, work: StepWork) -> Number:
        """Return the bytes that attention moves [k]: keys and values that it reads, and the new ones written before."""
        return self.kv_read_bytes(work) + work.tokens * self.kv_bytes_per_token

    def _absorbed_is_cheaper(self, work: StepWork) -> bool:
        """Tell whether it surely is for every sequence: of n new tokens it saves the way up of c tokens of context, and
        costs some more for each of n c + n (n + 1) / 2 pairs."""
        if not work.uniform:
            return False
        new, more = work.drafts, self.pair_macs - self.expanded_pair_macs
        saved = self.weights.latent_up - new * more
        return saved > 0 and work.shortest * saved >= more * new * (new + 1) / 2

    def _cheaper_mla_macs(self, work: StepWork) -> Number:
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
