"""EAGLE-SD: a light head drafts (EAGLE-3, Li et al. 2025), kept in HB beside the target (ELMoE-3D, 7.1)."""

from dataclasses import replace
from typing import TYPE_CHECKING

from device_model.draft import SeparateDraft
from device_model.roofline import Part, Unit
from device_model.setup import XpuSetup
from device_model.size import ModelSize
from device_model.specs.spec import BITS_PER_BYTE, Model
from device_model.units import at_width

if TYPE_CHECKING:
    from device_model.work import StepWork

WEIGHT_BITS = 16  # heads are published, and used, in BF16


class Scheme(SeparateDraft):
    """Its size is calibrated, since heads differ by target. Its KV cache is that of one layer of the target, in BF16,
    over all of the context (EAGLE-3, Section 3: a head is a single decoder layer; ELMoE-3D, 7.1: it lies in HB).

    Its MACs are as many as the weights that a pass reads, for each token; that they are wide is in their unit's rate.
    """

    published = "EAGLE3"
    attention = "EAGLE attention"

    def __init__(self, setup: XpuSetup) -> None:
        super().__init__(setup)
        self.weights_bytes = setup.locality.eagle_bytes
        self._layer = one_layer(setup.model)
        self.kv_bytes_per_token = self._layer.kv_bytes_per_token

    def groups(self, work: "StepWork", unit: Unit) -> tuple[tuple[Part, ...], ...]:
        read = self.weights_bytes * self.setup.speculation.eagle_read_share
        why = "the head lies in HB, split over all banks"
        macs = work.tokens * read * BITS_PER_BYTE / WEIGHT_BITS
        wide, layer = at_width(unit, WEIGHT_BITS), self._layer
        head = Part("EAGLE head", wide, why, macs, read)
        attention = Part(self.attention, wide, why, layer.attention_macs(work), layer.kv_traffic_bytes(work))
        return ((head,), (attention,))


def one_layer(model: Model) -> ModelSize:
    """Return the size of a model with the keys, values and pairs of a single layer without a window, in BF16."""
    size = ModelSize.of(model)
    return replace(
        size,
        kv_bytes_per_token=size.kv_bytes_per_token / model.layers * (WEIGHT_BITS / model.kv_bits),
        pair_macs=size.pair_macs / model.layers,
        expanded_pair_macs=0.0,  # a pass drafts few tokens: latents are never expanded for them
        windowed=0.0,
    )
