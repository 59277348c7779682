"""ELMoE-3D decoding autoregressively, and prefilling: HB serves what every token needs and caches whole experts.

In AR mode each PE reads its HB bank while EXT streams the experts that HB lacks (4.1, 5.1), so that within the expert
phase the two tiers overlap. Whole experts, not their MSB slices, are what HB caches here: with slices EXT would still
deliver the 4 LSBs of every hit, and even if all were hits, Qwen3-30B-A3B at batch 1 on 8 GB would be at most 3.3 times
as fast as on the xPU, where Table 3 has 4.77.
"""

import numpy as np

from device_model.device import Execution, RooflineDevice
from device_model.experts import hit_rate, touched_fraction
from device_model.placement import Residency
from device_model.roofline import Phase
from device_model.step import FloatArray
from device_model.work import StepWork


class Device(RooflineDevice):
    """An xPU under hybrid-bonded memory, without speculation."""

    def execute(self, work: StepWork) -> Execution:
        held = self.placement.at(self.size.kv_held_bytes(work))
        touched = touched_fraction(self.size.touch_share, float(work.tokens))
        hits = touched * hit_rate(self.size.expert_share(held.hb_expert_bytes), touched, self.locality)
        phases = (self._static(work), self._attention(work, held), self._experts(work, held, touched, hits))
        return Execution(phases, touched * self.size.experts, hits * self.size.experts)

    def _static(self, work: StepWork) -> Phase:
        in_hb = self.placement.hb_static_bytes / self.size.static_bytes
        read = self.size.static_read_bytes
        return Phase(self.size.static_macs(work), read * in_hb, read * (1 - in_hb))

    def _attention(self, work: StepWork, held: Residency) -> Phase:
        """Keys and values are read, and written, where they lie."""
        moved = self.size.kv_traffic_bytes(work)
        hb_bytes = moved * held.hb_kv_bytes / (held.hb_kv_bytes + held.ext_kv_bytes)
        return Phase(self.size.attention_macs(work), hb_bytes, moved - hb_bytes)

    def _experts(self, work: StepWork, held: Residency, touched: float, hits: FloatArray) -> Phase:
        """Hits from HB, misses from EXT; `touched` and `hits` are shares of all experts.

        Missed experts are written to the cache as they stream by (4.2, Expert Pool Update; Algorithm 1, line 30): no
        more of them than it holds, as the rest of one step would only evict each other.
        """
        missed_bytes = (touched - hits) * self.size.experts_bytes
        cached_bytes = np.minimum(missed_bytes, held.hb_expert_bytes)
        hb_bytes = hits * self.size.experts_bytes + cached_bytes
        return Phase(self.size.expert_macs(work), hb_bytes, missed_bytes)
