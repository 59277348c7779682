"""SLM-SD: a small dense model of the family drafts, with a KV cache of its own, both in HB (ELMoE-3D, 7.1)."""

from typing import TYPE_CHECKING

from device_model.draft import SeparateDraft
from device_model.roofline import Part, Unit
from device_model.setup import XpuSetup
from device_model.size import ModelSize

if TYPE_CHECKING:
    from device_model.work import StepWork


class Scheme(SeparateDraft):
    """The paper's is Qwen2.5-1.5B-Instruct (7, Inference Framework), for every target.

    Its embedding table is held apart from its LM head although they are tied: quantised, they are no longer the same.
    Table 3 says so too: under SLM-SD at 8 GB, all four models lose as many cached experts as 1.9 to 2.1 GB hold.
    """

    published = "SLM-SD"
    attention = "SLM attention"

    def __init__(self, setup: XpuSetup) -> None:
        super().__init__(setup)
        self._size = ModelSize.of(setup.slm)
        untied = self._size.weights.table * (2 - self._size.weights.tables) * setup.slm.static_bytes_per_weight
        self.weights_bytes = self._size.static_bytes + untied
        self.kv_bytes_per_token = self._size.kv_bytes_per_token

    def groups(self, work: "StepWork", unit: Unit) -> tuple[tuple[Part, ...], ...]:
        size, why = self._size, "the small model lies in HB, split over all banks"
        static = Part("SLM weights", unit, why, size.static_macs(work), size.static_read_bytes)
        attention = Part(self.attention, unit, why, size.attention_macs(work), size.kv_traffic_bytes(work))
        return ((static,), (attention,))
