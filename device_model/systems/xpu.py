"""The baseline of ELMoE-3D (7, Accelerator Baselines): the same die, with all it needs in LPDDR."""

from device_model.device import Execution, RooflineDevice
from device_model.experts import touched_fraction
from device_model.roofline import Phase
from device_model.spec import EnergyEstimate, Hardware, Locality, Model
from device_model.work import StepWork


class Device(RooflineDevice):
    """An xPU without hybrid-bonded memory."""

    def __init__(self, hardware: Hardware, model: Model, locality: Locality, estimate: EnergyEstimate) -> None:
        super().__init__(hardware.without_hb(), model, locality, estimate)

    def execute(self, work: StepWork) -> Execution:
        size = self.size
        lookups = size.experts * touched_fraction(size.touch_share, float(work.tokens))
        phases = (
            Phase(size.static_macs(work), 0.0, size.static_read_bytes),
            Phase(size.attention_macs(work), 0.0, size.kv_traffic_bytes(work)),
            Phase(size.expert_macs(work), 0.0, size.expert_bytes * lookups),
        )
        return Execution(phases, lookups, expert_hits=0.0)
