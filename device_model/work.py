"""What a step of a model moves and computes, whatever the hardware: bytes by part and multiply-accumulates (MACs)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from device_model.spec import Model
from device_model.step import FloatArray, StepPlan


@dataclass(frozen=True, slots=True)
class ModelSize:
    """How large the parts of a model are, over all its layers, and the MACs that they take.

    Static weights are those that every token needs: attention, router, norms, shared experts, embedding and LM head.
    """

    static_bytes: float
    static_read_bytes: float  # all static weights but the embedding table, of which a token reads one row
    kv_bytes_per_token: float
    expert_bytes: float  # one expert of one layer
    experts: int  # of all layers
    touch_share: float  # of a layer's experts, by one token
    static_macs_per_token: float
    expert_macs_per_token: float
    pair_macs: float  # a query against one key, and its weight on one value, in all heads
    head_macs_per_sequence: float  # logits, of the last token only

    @staticmethod
    def of(model: Model) -> "ModelSize":
        table = model.vocab_size * model.hidden_size
        expert = 3 * model.hidden_size * model.expert_intermediate_size  # gate, up, down
        body, norms = _layer_weights(model, expert) * model.layers, (2 * model.layers + 1) * model.hidden_size
        read = body + norms + table
        held = read if model.tied_embeddings else read + table
        return ModelSize(
            static_bytes=held * model.static_bytes_per_weight,
            static_read_bytes=read * model.static_bytes_per_weight,
            kv_bytes_per_token=2 * model.kv_heads * model.head_dim * model.layers * model.kv_bytes_per_value,
            expert_bytes=expert * model.expert_bytes_per_weight,
            experts=model.experts * model.layers,
            touch_share=model.top_k / model.experts,
            static_macs_per_token=body,
            expert_macs_per_token=expert * model.top_k * model.layers,
            pair_macs=2 * model.q_heads * model.head_dim * model.layers,
            head_macs_per_sequence=table,
        )

    @property
    def experts_bytes(self) -> float:
        """All experts of all layers."""
        return self.expert_bytes * self.experts

    def static_macs(self, work: "StepWork") -> float:
        """Projections, router and shared experts of every token, and the logits of every sequence."""
        return self.static_macs_per_token * work.tokens + self.head_macs_per_sequence * work.sequences

    def attention_macs(self, work: "StepWork") -> FloatArray:
        """Scores and weighted values [k]."""
        return self.pair_macs * work.pairs

    def expert_macs(self, work: "StepWork") -> float:
        """The routed experts of every token."""
        return self.expert_macs_per_token * work.tokens

    def kv_traffic_bytes(self, work: "StepWork") -> FloatArray:
        """What attention moves [k]: all keys and values are read once, and the new ones written before."""
        return (work.kv_tokens + work.tokens) * self.kv_bytes_per_token


def _layer_weights(model: Model, expert: int) -> int:
    """Weights of one layer that every token multiplies with: Q and output, K and V, router, shared experts."""
    q_width, kv_width = model.q_heads * model.head_dim, model.kv_heads * model.head_dim
    attention = 2 * model.hidden_size * (q_width + kv_width)
    return attention + model.hidden_size * model.experts + expert * model.shared_experts


class StepWork(NamedTuple):
    """The work of `k` consecutive steps of one batch: `kv_tokens` and `pairs` are [k], as only they grow."""

    tokens: int  # computed in each step
    sequences: int
    kv_tokens: FloatArray  # in the KV cache at the end of the step; attention reads each once
    pairs: FloatArray  # (query, key) pairs under the causal mask

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
        if new.min() < 1 or context.min() < 0:
            raise ValueError("The plan has a sequence with less than 1 new token or a context below 0")
        # Query i of n new tokens sees the context and the i tokens up to itself: n c + n (n + 1) / 2 pairs in all.
        tokens, squares = int(new.sum()), int(new @ new)
        pairs = int(new @ context) + (squares + tokens) / 2
        step = np.arange(steps, dtype=np.float64)
        return StepWork(tokens, len(new), int(context.sum()) + tokens * (step + 1), pairs + squares * step)
