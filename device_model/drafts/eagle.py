"""EAGLE-SD: a light head drafts (EAGLE-3, Li et al. 2025), kept in HB beside the target (ELMoE-3D, 7.1)."""

from typing import TYPE_CHECKING

from device_model.draft import SeparateDraft
from device_model.roofline import Part, Unit
from device_model.setup import XpuSetup
from device_model.specs.spec import BITS_PER_BYTE
from device_model.units import at_width

if TYPE_CHECKING:
    from device_model.work import StepWork

WEIGHT_BITS = 16  # heads are published, and used, in BF16


class Scheme(SeparateDraft):
    """Its size is calibrated, since heads differ by target. Its KV cache, of one layer, is left out: below 1 %.

    Its MACs are as many as the weights that a pass reads, for each token; that they are wide is in their unit's rate.
    """

    published = "EAGLE3"

    def __init__(self, setup: XpuSetup) -> None:
        super().__init__(setup)
        self.weights_bytes = setup.locality.eagle_bytes

    def groups(self, work: "StepWork", unit: Unit) -> tuple[tuple[Part, ...], ...]:
        read = self.weights_bytes * self.setup.speculation.eagle_read_share
        why = "the head lies in HB, split over all banks"
        macs = work.tokens * read * BITS_PER_BYTE / WEIGHT_BITS
        return ((Part("EAGLE head", at_width(unit, WEIGHT_BITS), why, macs, read),),)
