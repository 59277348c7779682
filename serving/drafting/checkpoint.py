"""A Qwen3-MoE checkpoint in Hugging Face format: its shape, and where its matrices lie, whatever library holds them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

Matrix = TypeVar("Matrix")
DENSE = ("q", "k", "v", "o")
EXPERTS = ("gate_up", "down")
LINEARS = (*DENSE, *EXPERTS)
"""The matrices of a layer that drafts change. The router and the norms are small, and kept."""


class WeightsShape(NamedTuple):
    """What the forward pass needs of config.json."""

    heads: int
    kv_heads: int
    head_dim: int
    experts: int
    top_k: int
    normalised: bool  # the weights of the chosen experts sum to 1
    rope_theta: float
    norm_epsilon: float
    eos: int  # -1 if there is none

    @staticmethod
    def of(config: dict[str, Any]) -> "WeightsShape":
        """Of transformers 4 and 5: they spell the number of experts and the rotation's base differently."""
        eos = config.get("eos_token_id")
        return WeightsShape(
            config["num_attention_heads"],
            config["num_key_value_heads"],
            config["head_dim"],
            config.get("num_local_experts") or config["num_experts"],
            config["num_experts_per_tok"],
            config["norm_topk_prob"],
            (config.get("rope_parameters") or config)["rope_theta"],
            config["rms_norm_eps"],
            -1 if eos is None else (eos[0] if isinstance(eos, list) else eos),
        )


@dataclass(frozen=True)
class LayerWeights(Generic[Matrix]):
    """One layer's weights; matrices are [outputs, inputs] as in the checkpoint."""

    input_norm: Matrix
    q: Matrix
    k: Matrix
    v: Matrix
    o: Matrix
    q_norm: Matrix
    k_norm: Matrix
    post_norm: Matrix
    router: Matrix  # [experts, hidden]
    gate_up: Matrix  # [experts, 2 intermediate, hidden]: gate above up
    down: Matrix  # [experts, hidden, intermediate]


class Joining(NamedTuple, Generic[Matrix]):
    """How a library joins matrices: `stack` along a new first axis, `above` along the second of three."""

    stack: Callable[[list[Matrix]], Matrix]
    above: Callable[[list[Matrix]], Matrix]


def layer_of(found: Mapping[str, Matrix], layer: int, experts: int, joining: Joining[Matrix]) -> LayerWeights[Matrix]:
    """Return a layer's weights out of all, whose names have lost their "model.". Raise KeyError if one is not there."""
    at = f"layers.{layer}."
    return LayerWeights(
        **{name: found[f"{at}self_attn.{name}_proj.weight"] for name in DENSE},
        **{name: found[f"{at}self_attn.{name}.weight"] for name in ("q_norm", "k_norm")},
        input_norm=found[f"{at}input_layernorm.weight"],
        post_norm=found[f"{at}post_attention_layernorm.weight"],
        router=found[f"{at}mlp.gate.weight"],
        gate_up=_gate_up(found, f"{at}mlp.experts.", experts, joining),
        down=_stacked(found, f"{at}mlp.experts.", "down_proj", experts, joining),
    )


def _gate_up(found: Mapping[str, Matrix], at: str, experts: int, joining: Joining[Matrix]) -> Matrix:
    """Return both as one, as transformers 5 has them; on disk they may be apart."""
    if f"{at}gate_up_proj" in found:
        return found[f"{at}gate_up_proj"]
    return joining.above([_stacked(found, at, name, experts, joining) for name in ("gate_proj", "up_proj")])


def _stacked(found: Mapping[str, Matrix], at: str, name: str, experts: int, joining: Joining[Matrix]) -> Matrix:
    if f"{at}{name}" in found:
        return found[f"{at}{name}"]
    return joining.stack([found[f"{at}{expert}.{name}.weight"] for expert in range(experts)])
