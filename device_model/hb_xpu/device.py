"""xPU device: the common part of all systems on ELMoE-3D's hardware, an xPU and the locality laws of experts."""

from dataclasses import replace

from device_model.device import RooflineDevice
from device_model.experts.locality_laws import Experts
from device_model.roofline import Unit
from device_model.setup import XpuSetup
from device_model.specs.calibrated import UNIFORM, UNIFORM_LOCALITY, Locality, Speculation
from device_model.specs.fitted import fitted, read_calibration
from device_model.specs.hardware import Hardware
from device_model.specs.kinds import hb_xpu
from device_model.specs.law import Law
from device_model.specs.published_rates import published_range
from device_model.specs.spec import GIB, DeviceError, EnergyEstimate, Model
from device_model.specs.spec_file import SPECS, read_named
from device_model.units import with_ext, xpu_unit
from device_model.work import StepWork

SLM = "qwen2.5-1.5b"


class XpuDevice(RooflineDevice):
    """A device whose hardware is an xPU, with HB or without."""

    kind = hb_xpu.KIND
    setup: XpuSetup

    def __init__(self, setup: XpuSetup) -> None:
        model, hardware = setup.model, setup.hardware
        dram_gib = hardware.hb_capacity_gib + hardware.ext_capacity_gib
        static_w = setup.estimate.static_w(hardware.pe_count, dram_gib)
        super().__init__(setup, static_w, xpu_unit(hardware, setup.estimate, hardware.ext.bytes_per_s))
        self.experts = Experts(model.experts, model.top_k, setup.locality, setup.speculation, setup.law)

    @classmethod
    def setup_of(cls, target: str, hardware: Hardware, model: Model) -> XpuSetup:
        if not isinstance(hardware, hb_xpu.Hardware):
            raise DeviceError(f"The hardware is of the kind {hardware.kind}; allowed is {cls.kind} here.")
        return XpuSetup(
            target=target,
            hardware=hardware,
            model=model,
            locality=fitted(Locality, model.calibration, Law.REALISABLE),
            speculation=fitted(Speculation, hardware.speculation, Law.REALISABLE),
            estimate=read_calibration(EnergyEstimate, hardware.energy_estimate),
            slm=read_named(Model, "model", SLM, SPECS / "models"),
        )

    def beyond_published(self, work: StepWork) -> str:
        published, hb_gb = published_range(), self.hb.capacity_bytes / GIB
        beyond = []
        if work.decoding > published.most_batch:
            beyond.append(f"a batch of {work.decoding}, where {published.most_batch} is the largest")
        if hb_gb and not published.least_gb <= hb_gb <= published.most_gb:
            beyond.append(f"{hb_gb:g} GB of HB, where it is {published.least_gb:g} to {published.most_gb:g}")
        return ", and ".join(beyond)

    @property
    def unmeasured(self) -> str:
        model = self.setup.model
        return UNIFORM_LOCALITY if model.experts and model.calibration == UNIFORM and self.hb.capacity_bytes else ""

    def unit_with(self, ext_bytes_per_s: float) -> Unit:
        return with_ext(self._unit, self.setup.hardware, ext_bytes_per_s)


def under(setup: XpuSetup, law: Law) -> XpuSetup:
    """Return the same model and hardware under a law, with what was fitted under it. Raise DeviceError."""
    return replace(
        setup,
        law=law,
        locality=fitted(Locality, setup.model.calibration, law),
        speculation=fitted(Speculation, setup.hardware.speculation, law),
    )
