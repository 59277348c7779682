"""The model in Hugging Face format, and back."""

from pathlib import Path

import torch
from transformers import GenerationConfig, Qwen3MoeConfig, Qwen3MoeForCausalLM

from serving.lab.training.model import TrainedModel
from serving.lab.training.shape import ModelShape
from serving.lab.training.tokenizer import END_OF_TEXT, END_OF_TURN, SPECIAL

TEMPERATURE, TOP_P = 0.2, 0.9  # of answers, where nobody asks for others: so small a model strays above that
LAYER = {
    "attention_norm.scale": "input_layernorm.weight",
    "attention.q": "self_attn.q_proj.weight",
    "attention.k": "self_attn.k_proj.weight",
    "attention.v": "self_attn.v_proj.weight",
    "attention.o": "self_attn.o_proj.weight",
    "attention.q_norm.scale": "self_attn.q_norm.weight",
    "attention.k_norm.scale": "self_attn.k_norm.weight",
    "experts_norm.scale": "post_attention_layernorm.weight",
    "experts.router": "mlp.gate.weight",
}


def config_of(shape: ModelShape) -> Qwen3MoeConfig:
    """Return the configuration of a model of this shape."""
    return Qwen3MoeConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=4 * shape.expert_hidden,
        moe_intermediate_size=shape.expert_hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_size,
        num_experts=shape.experts,
        num_experts_per_tok=shape.active,
        norm_topk_prob=True,
        rope_theta=shape.theta,
        rms_norm_eps=shape.epsilon,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        eos_token_id=SPECIAL.index(END_OF_TURN),
        bos_token_id=None,
        pad_token_id=SPECIAL.index(END_OF_TEXT),
    )


def to_hf(model: TrainedModel) -> Qwen3MoeForCausalLM:
    """Return the model as transformers has it; what it generates ends with a turn or a text."""
    made = Qwen3MoeForCausalLM(config_of(model.shape))
    ours = model.state_dict()
    theirs = {"model.embed_tokens.weight": ours["embedding"], "model.norm.weight": ours["norm.scale"]}
    theirs["lm_head.weight"] = ours["embedding"]
    for layer in range(model.shape.layers):
        mine, other = f"layers.{layer}.", f"model.layers.{layer}."
        theirs |= {other + name: ours[mine + key] for key, name in LAYER.items()}
        gate_up = torch.cat([ours[mine + "experts.gate"], ours[mine + "experts.up"]], -1)
        theirs[other + "mlp.experts.gate_up_proj"] = gate_up.mT
        theirs[other + "mlp.experts.down_proj"] = ours[mine + "experts.down"].mT
    made.load_state_dict(theirs)
    ends = [SPECIAL.index(END_OF_TURN), SPECIAL.index(END_OF_TEXT)]
    made.generation_config = GenerationConfig(
        do_sample=True, temperature=TEMPERATURE, top_p=TOP_P, eos_token_id=ends, pad_token_id=SPECIAL.index(END_OF_TEXT)
    )
    return made.eval()


def from_hf(hf: Qwen3MoeForCausalLM, shape: ModelShape) -> TrainedModel:
    """Return transformers' model as we train it."""
    theirs = hf.state_dict()
    ours = {"embedding": theirs["model.embed_tokens.weight"], "norm.scale": theirs["model.norm.weight"]}
    for layer in range(shape.layers):
        mine, other = f"layers.{layer}.", f"model.layers.{layer}."
        ours |= {mine + key: theirs[other + name] for key, name in LAYER.items()}
        gate, up = theirs[other + "mlp.experts.gate_up_proj"].mT.chunk(2, -1)
        down = theirs[other + "mlp.experts.down_proj"].mT
        ours |= {f"{mine}experts.gate": gate, f"{mine}experts.up": up, f"{mine}experts.down": down}
    model = TrainedModel(shape)
    model.load_state_dict(ours)
    return model


def save_model(model: TrainedModel, folder: Path) -> None:
    """Write configuration and weights, in BF16."""
    to_hf(model).to(torch.bfloat16).save_pretrained(folder)


def load_model(folder: Path) -> Qwen3MoeForCausalLM:
    """Load what `save_model` wrote, as float32."""
    return Qwen3MoeForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
