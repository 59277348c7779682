"""Weight counts of a model, by part, over all its layers. They are counts: bits come in where bytes are asked for.

Left out are biases (GPT-OSS: 0.03 % of the attention and of the experts; Qwen2.5: less), the norms of heads and of
latents, attention sinks, and multi-token-prediction layers, which decoding does without.
"""

from typing import NamedTuple

from device_model.specs.spec import GQA, Model


class Weights(NamedTuple):
    """Counts. All but the experts are static: every token needs them. A table is vocabulary times hidden size."""

    attention: int
    router: int
    shared_experts: int
    dense: int
    norms: int
    table: int
    tables: int  # 1 if the LM head is the embedding table, else 2
    latent_up: int  # the part of `attention` that makes keys and values from MLA's latents, 0 with GQA
    expert: int  # one expert of one layer
    experts: int  # how many of them, over all layers

    @staticmethod
    def of(model: Model) -> "Weights":
        hidden = model.hidden_size
        attention, latent_up = _gqa(model) if model.attention == GQA else _mla(model)
        shared_size = model.shared_expert_intermediate_size or model.expert_intermediate_size
        return Weights(
            attention=attention * model.layers,
            router=hidden * model.experts * model.expert_layers,
            shared_experts=_mlp(hidden, shared_size) * model.shared_experts * model.expert_layers,
            dense=_mlp(hidden, model.dense_intermediate_size) * model.dense_layers,
            norms=(2 * model.layers + 1) * hidden,
            table=model.vocab_size * hidden,
            tables=1 if model.tied_embeddings else 2,
            latent_up=latent_up * model.layers,
            expert=_mlp(hidden, model.expert_intermediate_size),
            experts=model.experts * model.expert_layers,
        )

    @property
    def body(self) -> int:
        """What every token is multiplied with in the layers: attention, routers, shared experts and dense MLPs."""
        return self.attention + self.router + self.shared_experts + self.dense

    @property
    def static_read(self) -> int:
        """What a step reads however few tokens it has: all static weights but the embedding table, of which a token
        reads one row. A tied table is read as LM head."""
        return self.body + self.norms + self.table

    @property
    def static_held(self) -> int:
        """All static weights."""
        return self.body + self.norms + self.table * self.tables


def _mlp(hidden_size: int, intermediate_size: int) -> int:
    """Gate, up and down."""
    return 3 * hidden_size * intermediate_size


def _gqa(model: Model) -> tuple[int, int]:
    """One layer: query and output, keys and values."""
    return 2 * model.hidden_size * model.head_dim * (model.q_heads + model.kv_heads), 0


def _mla(model: Model) -> tuple[int, int]:
    """One layer (DeepSeek-V2, arXiv 2405.04434, 2.1): queries, latents down, latents up, output; and latents up."""
    hidden, heads = model.hidden_size, model.q_heads
    q_width = heads * (model.qk_nope_head_dim + model.qk_rope_head_dim)
    queries = model.q_lora_rank * (hidden + q_width) if model.q_lora_rank else hidden * q_width
    down = hidden * (model.kv_lora_rank + model.qk_rope_head_dim)
    up = model.kv_lora_rank * heads * (model.qk_nope_head_dim + model.v_head_dim)
    return queries + down + up + heads * model.v_head_dim * hidden, up
