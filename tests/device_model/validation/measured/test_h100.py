"""Are the figures of the shipped H100 those of its measurements, and do other steps agree with them?"""

from dataclasses import replace
from pathlib import Path

import pytest

import device_model.validation.measured as measured
from device_model.load import load_model
from device_model.specs.hardware_file import load_hardware
from device_model.specs.kinds.gpu import Hardware
from device_model.specs.spec import Model
from device_model.systems import gpu
from device_model.validation.measured.fit import GpuFigures, emulated, figures_of, fit
from device_model.validation.measured.step_table import read_step_table

TABLES = Path(measured.__file__).parent / "h100"


def bf16(**other: str) -> Model:
    return replace(load_model("qwen3-30b-a3b"), static_weight_bits=16, expert_weight_bits=16, kv_bits=16, **other)


def shipped() -> Hardware:
    found = load_hardware("h100")
    assert isinstance(found, Hardware)
    return found


def test_the_shipped_figures_are_those_of_the_measured_steps() -> None:
    unmeasured = replace(shipped(), **dict.fromkeys(GpuFigures._fields, 0.0))
    found = fit(gpu.Device.setup_of("qwen3", unmeasured, bf16()), read_step_table(TABLES / "popular.csv"))
    setup = gpu.Device.setup_of("qwen3", shipped(), bf16())
    assert found.figures == figures_of(setup) and not found.untold
    decoding = [abs(error) for error in found.errors[:17]]
    assert sum(decoding) / 17 < 0.025 and max(decoding) < 0.065
    assert max(map(abs, found.errors)) < 0.23


def test_steps_with_even_experts_are_foretold() -> None:
    setup = gpu.Device.setup_of("qwen3", shipped(), bf16(calibration="uniform"))
    device = emulated(setup, figures_of(setup))
    errors = [one.predicted_s(device) / one.seconds - 1 for one in read_step_table(TABLES / "even.csv")[:7]]
    assert sum(map(abs, errors)) / 7 < 0.05
    assert errors == pytest.approx([0.0] * 7, abs=0.09)
