"""What all systems share: a step's phases priced by roofline and by energy. A system says what its phases are."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from device_model.placement import place
from device_model.roofline import Phase, Rates, latency_s
from device_model.spec import EnergyEstimate, Hardware, Locality, Model
from device_model.step import Energy, FloatArray, StepCosts, StepPlan, Traffic
from device_model.work import ModelSize, StepWork


class Execution(NamedTuple):
    """How a system carries out `k` steps: its phases, and the expert reads, of which HB serves `expert_hits`.

    A read is one expert of one layer, once a step however many tokens share it.
    """

    phases: tuple[Phase, ...]
    expert_lookups: float
    expert_hits: float | FloatArray


class RooflineDevice(ABC):
    """A `DeviceModel` that serves `model` on `hardware`; subclasses, one a file in `systems/`, are called `Device`."""

    def __init__(self, hardware: Hardware, model: Model, locality: Locality, estimate: EnergyEstimate) -> None:
        self.max_context_tokens = model.max_context_tokens
        self.size = ModelSize.of(model)
        self.hb, self.ext = hardware.hb, hardware.ext
        self.placement = place(self.size, self.hb, self.ext)
        self.locality = locality
        self._macs_per_s = hardware.macs_per_s
        self._estimate = estimate
        self._static_w = estimate.static_w(hardware)

    @property
    def kv_capacity_tokens(self) -> int:
        """Tokens of KV cache that the device holds beside its weights, over all tiers."""
        return self.placement.kv_capacity_tokens

    @property
    def ext_bytes_per_s(self) -> float:
        """Sustained bandwidth of the external tier when this device has it for itself, in bytes per second."""
        return self.ext.bytes_per_s

    def probe(self, plan: StepPlan, steps: int = 1, ext_bytes_per_s: float | None = None) -> StepCosts:
        """The costs of `steps` consecutive steps of `plan`, each sequence's context growing by its new tokens.

        `ext_bytes_per_s` is the external bandwidth granted, all of it when None. The sequences of the plan are taken
        for all that the KV cache holds, and steps past the context limit or the KV capacity are priced like any other:
        admission is the scheduler's. ValueError for a plan, a number of steps or a bandwidth that means nothing.
        """
        granted = self.ext_bytes_per_s if ext_bytes_per_s is None else ext_bytes_per_s
        if not granted > 0:
            raise ValueError(f"ext_bytes_per_s is {granted}; a probe needs a bandwidth above 0")
        execution = self.execute(StepWork.of(plan, steps))
        rates = Rates(self._macs_per_s, self.hb.bytes_per_s, granted)
        latency = np.empty(steps)
        latency[:] = latency_s(execution.phases, rates)
        traffic = _traffic_bytes(execution.phases, steps)
        return StepCosts(
            latency_s=latency,
            energy_j=self._energy_j(execution.phases, traffic, latency),
            traffic_bytes=traffic,
            expert_lookups=np.full(steps, execution.expert_lookups),
            expert_hits=np.full(steps, execution.expert_hits),
        )

    @abstractmethod
    def execute(self, work: StepWork) -> Execution:
        """Which part of `work` computes and reads what from where."""

    def _energy_j(self, phases: tuple[Phase, ...], traffic: FloatArray, latency: FloatArray) -> FloatArray:
        """Joules [k, 5]: what is moved and computed times its price.

        A write costs what ELMoE-3D, Table 1 gives for a read. Communication is the streamline's, which carries all that
        EXT delivers to the PEs (4.1); the PSUMs of the aggregation links are not counted yet.
        """
        hb_bytes, ext_bytes = traffic.T
        joules = np.empty((len(latency), len(Energy._fields)))
        joules[:, 0] = sum(phase.macs for phase in phases) * self._estimate.j_per_mac
        joules[:, 1] = ext_bytes * self.ext.j_per_byte
        joules[:, 2] = hb_bytes * self.hb.j_per_byte
        joules[:, 3] = ext_bytes * self._estimate.link_j_per_byte
        joules[:, 4] = latency * self._static_w
        return joules


def _traffic_bytes(phases: tuple[Phase, ...], steps: int) -> FloatArray:
    """Bytes [k, 2] that the phases move, by tier."""
    traffic = np.empty((steps, len(Traffic._fields)))
    traffic[:, 0] = sum(phase.hb_bytes for phase in phases)
    traffic[:, 1] = sum(phase.ext_bytes for phase in phases)
    return traffic
