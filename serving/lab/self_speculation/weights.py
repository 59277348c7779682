"""The weights of a Qwen3-MoE checkpoint in Hugging Face format, with the experts of a layer stacked."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from serving.usage_error import UsageError

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
        if config.get("model_type") != "qwen3_moe":
            raise UsageError(f"The model is a {config.get('model_type')}; allowed is qwen3_moe.")
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
class LayerWeights:
    """One layer's weights; matrices are [outputs, inputs] as in the checkpoint."""

    input_norm: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    q_norm: Tensor
    k_norm: Tensor
    post_norm: Tensor
    router: Tensor  # [experts, hidden]
    gate_up: Tensor  # [experts, 2 intermediate, hidden]: gate above up
    down: Tensor  # [experts, hidden, intermediate]


@dataclass(frozen=True)
class ModelWeights:
    """A model. The head is apart from the embedding even where they are tied: a draft changes only the head."""

    shape: WeightsShape
    embedding: Tensor  # [vocabulary, hidden]
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: Tensor  # [vocabulary, hidden]

    def with_linears(self, change: Callable[[str, int, Tensor], Tensor], head: bool) -> "ModelWeights":
        """Each matrix replaced by `change(name, layer, matrix)`; the head too if asked for, under the name "head"."""
        layers = tuple(
            replace(layer, **{name: change(name, index, getattr(layer, name)) for name in LINEARS})
            for index, layer in enumerate(self.layers)
        )
        return replace(self, layers=layers, head=change("head", len(layers), self.head) if head else self.head)

    def to(self, dtype: torch.dtype) -> "ModelWeights":
        """Return the weights in another floating-point type."""
        layers = tuple(
            LayerWeights(**{name: tensor.to(dtype) for name, tensor in vars(layer).items()}) for layer in self.layers
        )
        own = {name: getattr(self, name).to(dtype) for name in ("embedding", "norm", "head")}
        return replace(self, layers=layers, **own)


def load(folder: Path) -> ModelWeights:
    """Load the checkpoint in `folder`, in float32; raise UsageError if it is no Qwen3-MoE's."""
    from safetensors.torch import load_file

    try:
        config = json.loads((folder / "config.json").read_text())
        tensors: dict[str, Tensor] = {}
        for path in _files(folder):
            tensors |= load_file(path)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--token-model is {folder}; allowed is a checkpoint in Hugging Face format: {error}."
        ) from error
    return of_tensors(config, {name.removeprefix("model."): tensor.float() for name, tensor in tensors.items()})


def of_tensors(config: dict[str, Any], tensors: dict[str, Tensor]) -> ModelWeights:
    """Return the weights out of a state dict whose names have lost their "model."."""
    shape = WeightsShape.of(config)
    layers = tuple(_layer(tensors, f"layers.{i}.", shape.experts) for i in range(config["num_hidden_layers"]))
    embedding = tensors["embed_tokens.weight"]
    return ModelWeights(shape, embedding, layers, tensors["norm.weight"], tensors.get("lm_head.weight", embedding))


def digest(folder: Path) -> str:
    """SHA-256 of the checkpoint's weight files: which model was measured."""
    found = hashlib.sha256()
    for path in _files(folder):
        found.update(path.read_bytes())
    return found.hexdigest()


def _files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError("no *.safetensors is in it")
    return files


def _layer(tensors: dict[str, Tensor], at: str, experts: int) -> LayerWeights:
    own = {name: tensors[f"{at}self_attn.{name}_proj.weight"] for name in DENSE}
    norms = {name: tensors[f"{at}self_attn.{name}.weight"] for name in ("q_norm", "k_norm")}
    return LayerWeights(
        **own,
        **norms,
        input_norm=tensors[f"{at}input_layernorm.weight"],
        post_norm=tensors[f"{at}post_attention_layernorm.weight"],
        router=tensors[f"{at}mlp.gate.weight"],
        gate_up=_gate_up(tensors, f"{at}mlp.experts.", experts),
        down=_stacked(tensors, f"{at}mlp.experts.", "down_proj", experts),
    )


def _gate_up(tensors: dict[str, Tensor], at: str, experts: int) -> Tensor:
    """On disk gate and up are apart; in memory transformers 5 holds them as one."""
    if f"{at}gate_up_proj" in tensors:
        return tensors[f"{at}gate_up_proj"]
    return torch.cat([_stacked(tensors, at, name, experts) for name in ("gate_proj", "up_proj")], dim=1)


def _stacked(tensors: dict[str, Tensor], at: str, name: str, experts: int) -> Tensor:
    if f"{at}{name}" in tensors:
        return tensors[f"{at}{name}"]
    return torch.stack([tensors[f"{at}{expert}.{name}.weight"] for expert in range(experts)])
