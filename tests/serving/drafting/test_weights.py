"""Is a checkpoint refused, with a sentence, that lacks weights, or has some that no draft can be made of?"""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from serving.drafting.drafter import drafter
from serving.drafting.weights import load
from serving.usage_error import UsageError

HIDDEN, HEADS, HEAD_DIM, EXPERTS = 32, 2, 16, 2
CONFIG = {
    "model_type": "qwen3_moe",
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "head_dim": HEAD_DIM,
    "num_experts": EXPERTS,
    "num_experts_per_tok": 1,
    "norm_topk_prob": True,
    "rope_theta": 1e4,
    "rms_norm_eps": 1e-6,
    "num_hidden_layers": 1,
}


def checkpoint(folder: Path, intermediate: int = 32, without: str = "") -> Path:
    """Write one of a layer, whose experts are so wide, without one of its tensors."""
    wide = HEADS * HEAD_DIM
    attention = {f"self_attn.{name}_proj.weight": (wide, HIDDEN) for name in ("q", "k", "v")}
    attention |= {"self_attn.o_proj.weight": (HIDDEN, wide)}
    norms = {f"self_attn.{name}.weight": (HEAD_DIM,) for name in ("q_norm", "k_norm")}
    norms |= {f"{name}_layernorm.weight": (HIDDEN,) for name in ("input", "post_attention")}
    experts = {"mlp.gate.weight": (EXPERTS, HIDDEN)}
    for expert in range(EXPERTS):
        experts |= {f"mlp.experts.{expert}.{name}_proj.weight": (intermediate, HIDDEN) for name in ("gate", "up")}
        experts |= {f"mlp.experts.{expert}.down_proj.weight": (HIDDEN, intermediate)}
    shapes = {f"layers.0.{name}": shape for name, shape in (attention | norms | experts).items()}
    shapes |= {"embed_tokens.weight": (64, HIDDEN), "norm.weight": (HIDDEN,)}
    kept = {f"model.{name}": np.ones(shape, np.float32) for name, shape in shapes.items() if name != without}
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(kept, folder / "model.safetensors")
    return folder


def test_a_whole_one_drafts(tmp_path: Path) -> None:
    assert len(drafter(str(checkpoint(tmp_path)), "elastic").target.layers) == 1


@pytest.mark.parametrize(
    "lacked",
    ["embed_tokens.weight", "norm.weight", "layers.0.mlp.gate.weight", "layers.0.mlp.experts.1.up_proj.weight"],
)
def test_what_lacks_weights_is_refused(tmp_path: Path, lacked: str) -> None:
    with pytest.raises(UsageError, match=f"the weights in .* can't be read .*{lacked}"):
        load(checkpoint(tmp_path, without=lacked))


def test_weights_in_no_groups_of_32_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"can't be made those of a draft. The last axis must be a multiple of 32"):
        drafter(str(checkpoint(tmp_path, intermediate=48)), "elastic")
