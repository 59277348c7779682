"""The bits of nested weights as `bits` lays them out: the 4-bit MSB slice with the scale, and the rest."""

from device_model.bits import bits_per_weight
from device_model.specs.spec import Model

MSB_BITS = 4
DRAFT_BITS = bits_per_weight(MSB_BITS)


def draft_share(model: Model) -> float:
    """What a draft reads of an expert's bytes: the MSB slice, or all of one that can't be sliced."""
    return DRAFT_BITS / model.expert_weight_bits if sliceable(model) else 1.0


def sliceable(model: Model) -> bool:
    """Tell whether a model's experts have bits to spare for a draft; those in MXFP4 have not (ELMoE-3D, 7)."""
    return model.expert_weight_bits > DRAFT_BITS
