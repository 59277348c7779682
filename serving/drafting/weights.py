"""The weights of a Qwen3-MoE checkpoint in numpy, and what becomes of them at the width of a draft."""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from device_model.slices import MSB_BITS
from serving.drafting import bits
from serving.usage_error import UsageError

Floats = NDArray[np.float32]
ONLY = "Drafts are executed on a token model of the family Qwen3-MoE"
KINDS = {"F32": np.float32, "F16": np.float16}
MATRICES = ("q", "k", "v", "o", "gate_up", "down")


class Shape(NamedTuple):
    """What a pass needs of config.json."""

    heads: int
    kv_heads: int
    head_dim: int
    experts: int
    top_k: int
    normalised: bool  # the weights of the chosen experts sum to 1
    rope_theta: float
    norm_epsilon: float


@dataclass(frozen=True)
class Layer:
    """One layer; matrices are [outputs, inputs] as in the checkpoint."""

    input_norm: Floats
    q: Floats
    k: Floats
    v: Floats
    o: Floats
    q_norm: Floats
    k_norm: Floats
    post_norm: Floats
    router: Floats  # [experts, hidden]
    gate_up: Floats  # [experts, 2 intermediate, hidden]: gate above up
    down: Floats  # [experts, hidden, intermediate]


@dataclass(frozen=True)
class Weights:
    """A model. The head is apart from the embedding even where they are tied: only the head is quantised."""

    shape: Shape
    embedding: Floats  # [vocabulary, hidden]
    layers: tuple[Layer, ...]
    norm: Floats
    head: Floats  # [vocabulary, hidden]

    def with_matrices(self, change: Callable[[Floats], Floats]) -> "Weights":
        """Return the model with each matrix but embedding and routers changed."""
        layers = tuple(
            replace(layer, **{name: change(getattr(layer, name)) for name in MATRICES}) for layer in self.layers
        )
        return replace(self, layers=layers, head=change(self.head))


def in_int8(matrix: Floats) -> Floats:
    """Return the weights of ELMoE-3D's target (7: INT8 in groups of 32)."""
    return bits.dequantize(*bits.quantize(matrix)).astype(np.float32)


def in_slices(matrix: Floats) -> Floats:
    """Return the same weights as their 4-bit MSB slices stand for them, augmented (4.3)."""
    int8 = bits.quantize(matrix)
    return bits.dequantize(bits.augmented(bits.split(int8.values, MSB_BITS)), int8.scales).astype(np.float32)


def in_four_bits(matrix: Floats) -> Floats:
    """Return the weights quantised by themselves in 4 bits, as Quant-SD's copy has them."""
    return bits.dequantize(*bits.quantize(matrix, MSB_BITS)).astype(np.float32)


def check(folder: Path) -> dict[str, Any]:
    """Return the config.json of the checkpoint in `folder`. Raise UsageError if it is no Qwen3-MoE's."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{ONLY}, in a folder; {folder} is none ({error}).", "token_model", "acceptance") from error
    if config.get("model_type") != "qwen3_moe":
        raise UsageError(f"{ONLY}; that in {folder} is of {config.get('model_type')}.", "token_model", "acceptance")
    return config


def load(folder: Path) -> Weights:
    """Load the checkpoint in `folder`. Raise UsageError if it is no Qwen3-MoE's, or has no weights."""
    config = check(folder)
    try:
        found = {
            name.removeprefix("model."): _array(each)
            for path in sorted(folder.glob("*.safetensors"))
            for name, each in deserialize(path.read_bytes())  # type: ignore[no-untyped-call]  # it has no stubs
        }
        shape, embedding = _shape(config), found["embed_tokens.weight"]
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise UsageError(f"{ONLY}; the weights in {folder} can't be read ({error}).", "token_model") from error
    layers = tuple(_layer(found, f"layers.{i}.", shape.experts) for i in range(config["num_hidden_layers"]))
    return Weights(shape, embedding, layers, found["norm.weight"], found.get("lm_head.weight", embedding))


def _shape(config: dict[str, Any]) -> Shape:
    """Of transformers 4 and 5: they spell the number of experts and the rotation's base differently."""
    return Shape(
        config["num_attention_heads"],
        config["num_key_value_heads"],
        config["head_dim"],
        config.get("num_local_experts") or config["num_experts"],
        config["num_experts_per_tok"],
        config["norm_topk_prob"],
        (config.get("rope_parameters") or config)["rope_theta"],
        config["rms_norm_eps"],
    )


def _array(stored: dict[str, Any]) -> Floats:
    """Return a tensor of a safetensors file; numpy has no BF16, which is the upper half of a float32."""
    data, shape = stored["data"], stored["shape"]
    if stored["dtype"] == "BF16":
        upper = np.frombuffer(data, dtype=np.uint16).astype(np.uint32) << 16
        return upper.view(np.float32).reshape(shape)
    return np.frombuffer(data, dtype=KINDS[stored["dtype"]]).astype(np.float32).reshape(shape)


def _layer(found: dict[str, Floats], at: str, experts: int) -> Layer:
    named = {name: found[f"{at}self_attn.{name}_proj.weight"] for name in ("q", "k", "v", "o")}
    named |= {name: found[f"{at}self_attn.{name}.weight"] for name in ("q_norm", "k_norm")}
    named |= {
        "input_norm": found[f"{at}input_layernorm.weight"],
        "post_norm": found[f"{at}post_attention_layernorm.weight"],
        "router": found[f"{at}mlp.gate.weight"],
        "gate_up": _gate_up(found, f"{at}mlp.experts.", experts),
        "down": _stacked(found, f"{at}mlp.experts.", "down_proj", experts),
    }
    return Layer(**{field.name: named[field.name] for field in fields(Layer)})


def _gate_up(found: dict[str, Floats], at: str, experts: int) -> Floats:
    """Return both as one, as transformers 5 writes them; before it they were apart."""
    if f"{at}gate_up_proj" in found:
        return found[f"{at}gate_up_proj"]
    return np.concatenate([_stacked(found, at, name, experts) for name in ("gate_proj", "up_proj")], axis=1)


def _stacked(found: dict[str, Floats], at: str, name: str, experts: int) -> Floats:
    if f"{at}{name}" in found:
        return found[f"{at}{name}"]
    return np.stack([found[f"{at}{expert}.{name}.weight"] for expert in range(experts)])
