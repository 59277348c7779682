"""A model on a GPU with too little memory for all experts: those that it lacks are fetched from its host.

A router speaks when attention is done; experts that are missing then go over PCIe into the GPU's memory, and the MLPs
begin with the last of them (M2R2, arXiv 2502.02040, 2.1.3 and A.11: on-demand loading). All else is as on a GPU that
holds the whole model (`one_tier.gpu`). While it waits for its host the board draws what it draws idle: what it draws
beyond that at work is laid on bytes and MACs, at the rates that they reach. Both at once draw no more than the dearer
would alone, for a board's power is what its hardware says of it at work, whichever of them is the limit.
"""

from dataclasses import dataclass

from device_model.arrays import Number, most
from device_model.device import Execution
from device_model.experts.fidelity import Analytic, CacheAsk, ExpertCache
from device_model.experts.hottest import HottestCached
from device_model.experts.locality_laws import Experts
from device_model.experts.reads import tokens_of
from device_model.offload.memory import OffloadMemory, offload_memory
from device_model.one_tier.kernels import kernels
from device_model.plain import PlainDevice
from device_model.roofline import NEVER_BOUND, TARGET, Part, Stage, Unit
from device_model.setup import Setup
from device_model.specs.calibrated import GpuCalibration, Locality, Speculation
from device_model.specs.fitted import fitted, read_calibration
from device_model.specs.hardware import Hardware
from device_model.specs.kinds import offload
from device_model.specs.law import Law
from device_model.specs.spec import DeviceError, Model
from device_model.step import StepPlan
from device_model.work import StepWork

RESIDENT = "lies in the GPU's memory"
FETCHED = "the experts that are missing, when the router has spoken; kept where others are not used as much"
CACHES = "elmoe3d"
"""The calibration that says from how many experts a layer on a cache serves, of any device that keeps what was used."""
NO_PLACEMENT = "The plan has experts placed by topic, and the GPU's memory holds those that are used"


@dataclass(frozen=True, slots=True)
class OffloadSetup(Setup):
    """A model on a GPU and its host, and how an engine uses the GPU."""

    hardware: offload.Hardware
    calibration: GpuCalibration


class OffloadDevice(PlainDevice):
    """One GPU and its host."""

    kind = offload.KIND
    hits_are = "from HBM"
    setup: OffloadSetup
    placement: OffloadMemory
    cache: ExpertCache

    def __init__(self, setup: OffloadSetup) -> None:
        super().__init__(setup, setup.hardware.idle_w, _unit(setup))
        self.placement = offload_memory(self.size, self.hb, self.ext)
        self.cache = _cache(setup.model)
        self._wait_s = kernels(setup.model, setup.calibration, gpus=1) * setup.calibration.kernel_s

    @classmethod
    def setup_of(cls, target: str, hardware: Hardware, model: Model) -> OffloadSetup:
        if not isinstance(hardware, offload.Hardware):
            raise DeviceError(f"The hardware is of the kind {hardware.kind}; allowed is {cls.kind} here.")
        calibration = read_calibration(GpuCalibration, hardware.calibration)
        return OffloadSetup(target, hardware, model, calibration)

    def execute(self, plan: StepPlan, work: StepWork, unit: Unit) -> Execution:
        if plan.placed is not None:
            raise ValueError(NO_PLACEMENT)
        size = self.size
        groups = [
            (_part("static weights", unit, size.static_macs(work), size.static_read_bytes),),
            (_part("attention", unit, size.attention_macs(work), size.kv_traffic_bytes(work)),),
        ]
        if not size.experts:
            return Execution((Stage(TARGET, 1, tuple(groups), self._wait_s),), 0.0, 0.0)
        reads = self.cache.probe(self._ask(plan, work))
        missed = (reads.touched - reads.hits) * size.expert_bytes
        groups += [
            (Part("missing experts", unit, FETCHED, 0.0, ext_bytes=missed, hb_writes=missed),),
            (_part("experts", unit, size.expert_macs(work), reads.touched * size.expert_bytes),),
        ]
        return Execution((Stage(TARGET, 1, tuple(groups), self._wait_s),), reads.touched, reads.hits)

    def commit(self, plan: StepPlan) -> None:
        """Carry out what a step of `plan` does to the experts in the GPU's memory; nothing at analytic fidelity."""
        self.cache.commit(self._ask(plan, StepWork.of(plan, 1)))

    def _ask(self, plan: StepPlan, work: StepWork) -> CacheAsk:
        slots = self.placement.slots(self.size.kv_held_bytes(work))
        return CacheAsk(tokens_of(work), slots, routes=plan.routes)


def _part(name: str, unit: Unit, macs: Number, hb_bytes: Number) -> Part:
    """Return a part whose MACs and bytes share, by their prices, what the dearer of them would cost alone."""
    if not unit.hb_j_per_byte:  # a board that draws at work what it draws idle
        return Part(name, unit, RESIDENT, macs, hb_bytes)
    macs_j, bytes_j = macs * unit.j_per_mac, hb_bytes * unit.hb_j_per_byte
    share = most(macs_j, bytes_j) / (macs_j + bytes_j)
    sharing = unit._replace(j_per_mac=unit.j_per_mac * share, hb_j_per_byte=unit.hb_j_per_byte * share)
    return Part(name, sharing, RESIDENT, macs, hb_bytes)


def _cache(model: Model) -> ExpertCache:
    """Return what is kept of the experts: by the published share of hot choices, or else by the law that was fitted of
    the model's reads, as on an xPU."""
    if model.hot_hit_rate or not model.experts:
        return HottestCached(model)
    locality, caches = fitted(Locality, model.calibration, Law.REALISABLE), fitted(Speculation, CACHES, Law.REALISABLE)
    return Analytic(Experts(model.experts, model.top_k, locality, caches), model.experts * model.expert_layers)


def _unit(setup: OffloadSetup) -> Unit:
    """Return the GPU, with its memory and PCIe."""
    hardware, calibration = setup.hardware, setup.calibration
    macs_per_s = hardware.macs_per_s * calibration.compute_share
    hbm_bytes_per_s = hardware.fast.bytes_per_s * calibration.bandwidth_share
    return Unit(
        name="GPU",
        macs_per_s=macs_per_s,
        hb_bytes_per_s=hbm_bytes_per_s,
        ext_bytes_per_s=hardware.slow.bytes_per_s,
        link_bytes_per_s=NEVER_BOUND,
        j_per_mac=hardware.busy_beyond_idle_w * hardware.clock_share / macs_per_s,
        hb_j_per_byte=hardware.busy_beyond_idle_w / hbm_bytes_per_s,
        ext_j_per_byte=hardware.slow.j_per_byte,
        link_j_per_byte=hardware.link_j_per_byte,
    )
