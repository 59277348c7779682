"""EAGLE-SD: a light head drafts (EAGLE-3, Li et al. 2025), kept in HB beside the target (ELMoE-3D, 7.1)."""

from typing import TYPE_CHECKING

from device_model.draft import SeparateDraft
from device_model.roofline import Part, Unit
from device_model.setup import XpuSetup

if TYPE_CHECKING:
    from device_model.work import StepWork

WEIGHT_BYTES = 2.0  # heads are published, and used, in BF16


class Scheme(SeparateDraft):
    """Its size is calibrated, since heads differ by target. Its KV cache, of one layer, is left out: below 1 %."""

    published = "EAGLE3"

    def __init__(self, setup: XpuSetup) -> None:
        super().__init__(setup)
        self.weights_bytes = setup.locality.eagle_bytes

    def groups(self, work: "StepWork", unit: Unit) -> tuple[tuple[Part, ...], ...]:
        read = self.weights_bytes * self.setup.speculation.eagle_read_share
        why = "the head lies in HB, split over all banks"
        return ((Part("EAGLE head", unit, why, work.tokens * read / WEIGHT_BYTES, read),),)
