"""What the classifier ships: the encoder's first layers with what was learnt, in numbers small enough for a wheel.

Rows of words are 8 bits with a factor each, the layers' matrices half precision; all else is so little that it stays
as it is. The changes are added to the matrices that they change.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from serving.lab.topic_training.encoder import Encoder, Layer, Weights
from serving.topics.encoder import LINEAR, NORMS
from serving.topics.prompt_reader import HEAD, TAIL

LARGEST = 127
"""Of a signed byte, with as much below zero."""


def packed(encoder: Encoder, learnt: Weights) -> dict[str, NDArray[Any]]:
    """Return the tensors of `serving.topics.classifier.Classifier` by name: an encoder's own, its last layer changed
    as was `learnt`, and the head."""
    words = encoder.words.numpy()
    scales = (np.abs(words).max(1, keepdims=True) / LARGEST).astype(np.float32)
    tensors: dict[str, NDArray[Any]] = {
        "words": np.round(words / np.maximum(scales, np.finfo(np.float32).tiny)).astype(np.int8),
        "words.scale": scales,
        # No prompt is read further.
        "positions": encoder.positions[: HEAD + TAIL + 2].numpy().copy(),
        "norm.weight": encoder.norm[0].numpy(),
        "norm.bias": encoder.norm[1].numpy(),
        "head.weight": learnt["head.weight"].detach().numpy(),
        "head.bias": learnt["head.bias"].detach().numpy(),
    }
    with torch.no_grad():
        *below, last = encoder.layers
        for index, layer in enumerate([*below, last.changed(learnt)]):
            tensors |= {f"layers.{index}.{name}": tensor for name, tensor in _layer(layer).items()}
    return tensors


def _layer(layer: Layer) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    for name in LINEAR:
        weight, bias = layer.linear[name]
        found |= {f"{name}.weight": weight.numpy().astype(np.float16), f"{name}.bias": bias.numpy()}
    for name, (weight, bias) in zip(NORMS, layer.norms, strict=True):
        found |= {f"{name}.weight": weight.numpy(), f"{name}.bias": bias.numpy()}
    return found
