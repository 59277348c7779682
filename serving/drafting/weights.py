"""The weights of a Qwen3-MoE checkpoint in numpy, and what becomes of them at the width of a draft."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from device_model.slices import MSB_BITS
from serving.drafting import bits
from serving.drafting.checkpoint import LINEARS, Joining, LayerWeights, WeightsShape, layer_of
from serving.usage_error import UsageError

Floats = NDArray[np.float32]
ONLY = "Drafts are executed on a token model of the family Qwen3-MoE"
KINDS = {"F32": np.float32, "F16": np.float16}
JOINING: Joining[Floats] = Joining(np.stack, partial(np.concatenate, axis=1))


@dataclass(frozen=True)
class Weights:
    """A model. The head is apart from the embedding even where they are tied: only the head is quantised."""

    shape: WeightsShape
    embedding: Floats  # [vocabulary, hidden]
    layers: tuple[LayerWeights[Floats], ...]
    norm: Floats
    head: Floats  # [vocabulary, hidden]

    def with_matrices(self, change: Callable[[Floats], Floats]) -> "Weights":
        """Return the model with each matrix but embedding and routers changed."""
        layers = tuple(
            replace(layer, **{name: change(getattr(layer, name)) for name in LINEARS}) for layer in self.layers
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


def weights_files(folder: Path) -> list[Path]:
    """Return the files of a checkpoint's weights."""
    return sorted(folder.glob("*.safetensors"))


def load(folder: Path) -> Weights:
    """Load the checkpoint in `folder`. Raise UsageError if it is no Qwen3-MoE's, or has no weights."""
    config = check(folder)
    try:
        found = {
            name.removeprefix("model."): _array(each)
            for path in weights_files(folder)
            for name, each in deserialize(path.read_bytes())  # type: ignore[no-untyped-call]  # it has no stubs
        }
        shape, embedding = WeightsShape.of(config), found["embed_tokens.weight"]
        layers = tuple(layer_of(found, i, shape.experts, JOINING) for i in range(config["num_hidden_layers"]))
        return Weights(shape, embedding, layers, found["norm.weight"], found.get("lm_head.weight", embedding))
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise UsageError(f"{ONLY}; the weights in {folder} can't be read ({error}).", "token_model") from error


def _array(stored: dict[str, Any]) -> Floats:
    """Return a tensor of a safetensors file; numpy has no BF16, which is the upper half of a float32."""
    data, shape = stored["data"], stored["shape"]
    if stored["dtype"] == "BF16":
        upper = np.frombuffer(data, dtype=np.uint16).astype(np.uint32) << 16
        return upper.view(np.float32).reshape(shape)
    return np.frombuffer(data, dtype=KINDS[stored["dtype"]]).astype(np.float32).reshape(shape)
