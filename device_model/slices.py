"""The bits of nested weights (ELMoE-3D, 3.3 and 4.3): the 4-bit MSB slice with the scale in HB, and the rest in EXT."""

from device_model.specs.spec import Model

GROUP = 32
"""Weights that share a scale (7, "G32")."""
SCALE_BITS = 16
MSB_BITS = 4


def bits_per_weight(bits: int) -> float:
    """Memory of a weight of `bits` bits with its share of the scale: 8.5 for INT8, 4.5 for a 4-bit MSB slice."""
    return bits + SCALE_BITS / GROUP


DRAFT_BITS = bits_per_weight(MSB_BITS)


def draft_share(model: Model) -> float:
    """Return the share of an expert's bytes that a draft reads: the MSB slice, or all of one that can't be sliced."""
    return DRAFT_BITS / model.expert_weight_bits if sliceable(model) else 1.0


def static_draft_bits(model: Model) -> float:
    """Return the bits of a static weight that a draft reads: those of the MSB slice, or all if it has no more."""
    return min(DRAFT_BITS, model.static_weight_bits)


def sliceable(model: Model) -> bool:
    """Tell whether a model's experts have bits to spare for a draft; those in MXFP4 have not (ELMoE-3D, 7)."""
    return model.expert_weight_bits > DRAFT_BITS
