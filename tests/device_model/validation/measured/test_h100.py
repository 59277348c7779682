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
from device_model.validation.measured.fit import GpuFigures, GpuFit, Measured, figures_of, fit
from device_model.validation.measured.step_table import read_step_table

TABLES = Path(measured.__file__).parent / "h100"
AGAIN = TABLES.with_name("h100-again")
"""The same steps, on another H100 two days later, by tools/measure_gpu."""
OLMOE = TABLES.with_name("h100-olmoe")
"""Steps of OLMoE's sizes, a third of Qwen3's layers, on a third H100 by the same."""


def bf16(**other: str) -> Model:
    return replace(load_model("qwen3-30b-a3b"), static_weight_bits=16, expert_weight_bits=16, kv_bits=16, **other)


def olmoe() -> Model:
    return load_model("olmoe-1b-7b")


def shipped() -> Hardware:
    found = load_hardware("h100")
    assert isinstance(found, Hardware)
    return found


def as_if_unmeasured() -> Hardware:
    return replace(shipped(), **dict.fromkeys(GpuFigures._fields, 0.0))


def measured_of(table: Path, model: Model, hardware: Hardware) -> Measured:
    return Measured(gpu.Device.setup_of("measured", hardware, model), read_step_table(table))


def foretold(table: Path, model: Model) -> list[float]:
    """Relative errors of the shipped figures, of each step of a table."""
    run = measured_of(table, model, shipped())
    return list(run.errors(figures_of(run.setup)))


def fitted(*of_models: tuple[Path, Model]) -> GpuFit:
    return fit(*(measured_of(table, model, as_if_unmeasured()) for table, model in of_models))


@pytest.mark.slow
def test_the_shipped_figures_are_those_of_the_measured_steps_of_both_models() -> None:
    found = fitted((TABLES / "popular.csv", bf16()), (OLMOE / "even.csv", olmoe()))
    assert found.figures == figures_of(gpu.Device.setup_of("qwen3", shipped(), bf16())) and not found.kept
    popular, even = ([abs(error) for error in errors] for errors in found.errors)
    assert sum(popular[:17]) / 17 < 0.025 and max(popular[:17]) < 0.065 and max(popular) < 0.195
    assert sum(even[:17]) / 17 < 0.055 and max(even[:17]) < 0.15
    assert sum(even[17:]) / 8 < 0.13 and max(even) < 0.31


@pytest.mark.parametrize("tables", [TABLES, AGAIN])
def test_steps_with_even_experts_are_foretold(tables: Path) -> None:
    errors = foretold(tables / "even.csv", bf16(calibration="uniform"))[:7]
    assert sum(map(abs, errors)) / 7 < 0.05
    assert errors == pytest.approx([0.0] * 7, abs=0.09)


def test_another_h100_is_foretold_as_well_as_the_one_that_was_fitted_to() -> None:
    errors = [abs(error) for error in foretold(AGAIN / "popular.csv", bf16())]
    assert sum(errors[:17]) / 17 < 0.025 and max(errors[:17]) < 0.075
    assert max(errors) < 0.25


@pytest.mark.slow
def test_another_h100_gives_the_same_figures_but_for_its_host() -> None:
    found = fitted((AGAIN / "popular.csv", bf16()), (OLMOE / "even.csv", olmoe())).figures
    first = figures_of(gpu.Device.setup_of("qwen3", shipped(), bf16()))
    host = {"eager_layer_us": 0.0, "eager_pass_us": 0.0}
    assert found._replace(**host) == pytest.approx(first._replace(**host), rel=0.05)
    launched = [48 * one.eager_layer_us + one.eager_pass_us for one in (found, first)]
    assert launched[0] == pytest.approx(launched[1], rel=0.08)


@pytest.mark.slow
def test_one_model_foretells_another_worse_without_what_a_pass_takes_by_itself() -> None:
    """A fit to Qwen3 alone, which has three times OLMoE's layers, lays all of it on them."""
    alone = fitted((TABLES / "popular.csv", bf16())).figures
    assert alone.pass_us == alone.eager_pass_us == 0
    run = measured_of(OLMOE / "even.csv", olmoe(), shipped())
    errors = [abs(error) for error in run.errors(alone)]
    assert 0.075 < sum(errors[:17]) / 17 < 0.085 and max(errors[:17]) < 0.215
    assert 0.19 < sum(errors[17:]) / 8 < 0.2


def test_decoding_took_as_long_on_both() -> None:
    for name, steps in (("popular", 17), ("even", 7)):
        first, second = (read_step_table(tables / f"{name}.csv")[:steps] for tables in (TABLES, AGAIN))
        assert [one.seconds for one in second] == pytest.approx([one.seconds for one in first], rel=0.012)
