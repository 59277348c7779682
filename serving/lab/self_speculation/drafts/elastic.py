"""ELMoE-3D's target and its drafts: INT8 weights in groups of 32, and what their MSB slices stand for (4.2, 4.3, 7).

"All models use G32 INT8 symmetric quantization with FP16 scaling factors" (7): the target itself runs with INT8 weights
here. All linear weights are quantised and sliced: the experts', attention's, and the head, which `device_model.size`
counts among the static weights that a draft reads at its own width. For GPT-OSS the paper scales the bits of the dense
layers, so that they are sliced too. Embedding rows, norms and the router stay. Activations are not quantised here (the
paper's are INT8), and the arithmetic is floating-point.
"""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from device_model.slices import bits_per_weight
from serving.drafting import bits
from serving.lab.self_speculation.draft import Bits, DraftModel
from serving.lab.self_speculation.weights import ModelWeights

Treatment = Literal["augmented", "rounded", "truncated", "dedicated"]
TREATMENTS: tuple[Treatment, ...] = get_args(Treatment)
"""Of the MSB slice (Fig. 8 and 17c); "dedicated" is a quantisation of its own, as Quant-SD's copy of the target."""

ON_GRID: dict[Treatment, Callable[[bits.Int8Array, int], bits.Int16Array]] = {
    "augmented": lambda values, width: bits.augmented(bits.split(values, width)),
    "rounded": bits.rounded,
    "truncated": lambda values, width: bits.truncated(bits.split(values, width)),
}


class Elastic:
    """A checkpoint's INT8 weights: the target, and all drafts that lie within it."""

    def __init__(self, source: ModelWeights) -> None:
        self._source = source
        self._int8: dict[tuple[str, int], bits.Quantized] = {}
        self.target = source.with_linears(self._quantised, head=True)

    def draft(self, treatment: Treatment, width: int) -> DraftModel:
        """Return a draft of `width` bits (3 to 8) a weight, of all experts."""
        if treatment == "dedicated":
            weights = self._source.with_linears(lambda _name, _layer, matrix: _dedicated(matrix, width), head=True)
        else:
            weights = self._source.with_linears(self._sliced(ON_GRID[treatment], width), head=True)
        own = bits_per_weight(width)
        return DraftModel(weights, Bits(own, own))

    def _quantised(self, name: str, layer: int, matrix: Tensor) -> Tensor:
        int8 = self._int8[name, layer] = bits.quantize(matrix.numpy())
        return _tensor(int8.values, int8.scales, matrix.dtype)

    def _sliced(
        self, on_grid: Callable[[bits.Int8Array, int], bits.Int16Array], width: int
    ) -> Callable[[str, int, Tensor], Tensor]:
        def change(name: str, layer: int, matrix: Tensor) -> Tensor:
            int8 = self._int8[name, layer]
            return _tensor(on_grid(int8.values, width), int8.scales, matrix.dtype)

        return change


def _dedicated(matrix: Tensor, width: int) -> Tensor:
    own = bits.quantize(matrix.numpy(), width)
    return _tensor(own.values, own.scales, matrix.dtype)


def _tensor(
    values: np.ndarray[tuple[int, ...], np.dtype[np.integer]], scales: bits.Float16Array, dtype: torch.dtype
) -> Tensor:
    return torch.from_numpy(bits.dequantize(values, scales)).to(dtype)
