"""The weights of a Qwen3-MoE checkpoint in Hugging Face format, with the experts of a layer stacked."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from serving.drafting.checkpoint import LINEARS, Joining, LayerWeights, WeightsShape, layer_of
from serving.usage_error import UsageError

JOINING: Joining[Tensor] = Joining(torch.stack, partial(torch.cat, dim=1))


@dataclass(frozen=True)
class ModelWeights:
    """A model. The head is apart from the embedding even where they are tied: a draft changes only the head."""

    shape: WeightsShape
    embedding: Tensor  # [vocabulary, hidden]
    layers: tuple[LayerWeights[Tensor], ...]
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
    except (OSError, ValueError, SafetensorError) as error:
        raise UsageError(
            f"--token-model is {folder}; allowed is a checkpoint in Hugging Face format: {error}."
        ) from error
    try:
        return of_tensors(config, {name.removeprefix("model."): tensor.float() for name, tensor in tensors.items()})
    except KeyError as error:
        raise UsageError(f"--token-model is {folder}, which lacks {error}; allowed is a whole checkpoint.") from error


def of_tensors(config: dict[str, Any], tensors: dict[str, Tensor]) -> ModelWeights:
    """Return the weights out of a state dict whose names have lost their "model."."""
    if config.get("model_type") != "qwen3_moe":
        raise UsageError(f"The model is a {config.get('model_type')}; allowed is qwen3_moe.")
    shape = WeightsShape.of(config)
    layers = tuple(layer_of(tensors, i, shape.experts, JOINING) for i in range(config["num_hidden_layers"]))
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
