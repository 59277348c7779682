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
from device_model.validation.measured.fit import GpuFigures, Measured, emulated, figures_of, fit
from device_model.validation.measured.step_table import read_step_table

TABLES = Path(measured.__file__).parent / "h100"
AGAIN = TABLES.with_name("h100-again")
"""The same steps, on another H100 two days later, by tools/measure_gpu."""


def bf16(**other: str) -> Model:
    return replace(load_model("qwen3-30b-a3b"), static_weight_bits=16, expert_weight_bits=16, kv_bits=16, **other)


def shipped() -> Hardware:
    found = load_hardware("h100")
    assert isinstance(found, Hardware)
    return found


def test_the_shipped_figures_are_those_of_the_measured_steps() -> None:
    unmeasured = replace(shipped(), **dict.fromkeys(GpuFigures._fields, 0.0))
    found = fit(Measured(gpu.Device.setup_of("qwen3", unmeasured, bf16()), read_step_table(TABLES / "popular.csv")))
    setup = gpu.Device.setup_of("qwen3", shipped(), bf16())
    assert found.figures == figures_of(setup) and {*found.kept} == {"pass_us", "eager_pass_us"}
    decoding = [abs(error) for error in found.errors[0][:17]]
    assert sum(decoding) / 17 < 0.025 and max(decoding) < 0.065
    assert max(map(abs, found.errors[0])) < 0.23


def foretold(model: Model, table: Path) -> list[float]:
    """Relative errors of the shipped figures, of each step of a table."""
    setup = gpu.Device.setup_of("qwen3", shipped(), model)
    device = emulated(setup, figures_of(setup))
    return [one.predicted_s(device) / one.seconds - 1 for one in read_step_table(table)]


@pytest.mark.parametrize("tables", [TABLES, AGAIN])
def test_steps_with_even_experts_are_foretold(tables: Path) -> None:
    errors = foretold(bf16(calibration="uniform"), tables / "even.csv")[:7]
    assert sum(map(abs, errors)) / 7 < 0.05
    assert errors == pytest.approx([0.0] * 7, abs=0.09)


def test_another_h100_is_foretold_as_well_as_the_one_that_was_fitted_to() -> None:
    errors = [abs(error) for error in foretold(bf16(), AGAIN / "popular.csv")]
    assert sum(errors[:17]) / 17 < 0.025 and max(errors[:17]) < 0.075
    assert max(errors) < 0.25


def test_another_h100_gives_the_same_figures() -> None:
    unmeasured = replace(shipped(), **dict.fromkeys(GpuFigures._fields, 0.0))
    setup = gpu.Device.setup_of("qwen3", unmeasured, bf16())
    found = fit(Measured(setup, read_step_table(AGAIN / "popular.csv"))).figures
    assert found == pytest.approx(figures_of(gpu.Device.setup_of("qwen3", shipped(), bf16())), rel=0.04)


def test_decoding_took_as_long_on_both() -> None:
    for name, steps in (("popular", 17), ("even", 7)):
        first, second = (read_step_table(tables / f"{name}.csv")[:steps] for tables in (TABLES, AGAIN))
        assert [one.seconds for one in second] == pytest.approx([one.seconds for one in first], rel=0.012)


def test_another_model_is_foretold() -> None:
    """OLMoE's sizes, with a third of Qwen3's layers, to which nothing is fitted."""
    setup = gpu.Device.setup_of("olmoe", shipped(), load_model("olmoe-1b-7b"))
    device = emulated(setup, figures_of(setup))
    steps = read_step_table(TABLES.with_name("h100-olmoe") / "even.csv")
    errors = [one.predicted_s(device) / one.seconds - 1 for one in steps]
    assert sum(map(abs, errors[:17])) / 17 < 0.085 and max(map(abs, errors[:17])) < 0.215
    assert min(errors) > -0.35 and max(errors) < 0.045
