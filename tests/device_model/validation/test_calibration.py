"""Is a calibration repeatable, written so that it loads again, and as few figures as was promised?"""

import dataclasses
import tomllib

import numpy as np
import pytest

from device_model.load import load_setup
from device_model.specs.calibrated import Locality, Speculation
from device_model.specs.spec_file import SPECS, read_named
from device_model.validation.calibration import OF_DEVICE, OF_MODEL, calibrate
from device_model.validation.calibration_file import write_calibration
from device_model.validation.errors import errors_of, predicted
from device_model.validation.table3 import read_cells

MODEL = "deepseek-v2-lite"
CELLS = [
    cell for cell in read_cells() if cell.model == MODEL and cell.hb_gb == 8 and cell.draft in ("EAGLE3", "Elastic-SD")
]
SHIPPED = SPECS / "calibration"
TARGETS = ("qwen3-30b-a3b", "glm-4.7-flash", "deepseek-v2-lite", "gpt-oss-20b")


@pytest.fixture(scope="module")
def fit():
    return calibrate(CELLS)


@pytest.fixture
def written(fit, tmp_path):
    write_calibration(fit, CELLS, "mine.csv", "2026-01-02", tmp_path / "made" / "here")
    return tmp_path / "made" / "here"


@pytest.mark.slow
def test_the_same_cells_give_the_same_figures_to_the_last_digit(fit):
    assert calibrate(CELLS) == fit


def test_a_fit_is_near_what_it_was_fitted_to(fit):
    ar, sd = errors_of(predicted(cell, fit.setup(cell)) for cell in CELLS)
    assert ar.cells == sd.cells == 5
    assert ar.mape < 3 and sd.mape < 10


def test_it_stays_between_the_bounds_of_each_figure(fit):
    for figures, ranges in ((fit.speculation, OF_DEVICE), (fit.localities[MODEL], OF_MODEL)):
        for name, range_ in ranges.items():
            value = getattr(figures, name)
            assert range_.low * (1 - 5e-3) <= value <= range_.high * (1 + 5e-3)
            assert not range_.whole or type(value) is int


@pytest.mark.slow
def test_cells_without_a_speedup_make_no_difference(fit):
    known = [cell for cell in CELLS if cell.phi_ar is not None]
    assert len(known) < len(CELLS)
    assert calibrate(known) == fit


@pytest.mark.parametrize("cells", [[], [dataclasses.replace(CELLS[0], phi_ar=None, phi_sd=None)]])
def test_without_a_speedup_there_is_nothing_to_fit_to(cells):
    with pytest.raises(ValueError, match="No cell has a speedup; a calibration needs some to fit to"):
        calibrate(cells)


def test_what_is_written_loads_again_with_the_same_figures(fit, written):
    assert sorted(path.stem for path in written.iterdir()) == [MODEL, "elmoe3d"]
    assert read_named(Locality, "calibration", MODEL, written) == fit.localities[MODEL]
    assert read_named(Speculation, "calibration", "elmoe3d", written) == fit.speculation


@pytest.mark.parametrize("name", [MODEL, "elmoe3d"])
def test_its_head_says_what_it_was_fitted_on_when_and_how_well(fit, written, name):
    head = (written / f"{name}.toml").read_text().split("\n\n")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    ar, sd = errors_of(predicted(cell, fit.setup(cell)) for cell in CELLS)
    for said in ("fitted, not published", "2026-01-02", "Fitted on 5 cells of mine.csv"):
        assert said in head
    assert f"Residuals of phi_ar: mean {ar.mape:.2f} %, p90 {ar.p90:.2f} %, largest {ar.largest:.2f} %." in head
    assert f"Residuals of phi_sd: mean {sd.mape:.2f} %, p90 {sd.p90:.2f} %, largest {sd.largest:.2f} %." in head


def test_what_was_chosen_is_told_from_what_was_fitted(written):
    sources = tomllib.loads((written / "elmoe3d.toml").read_text())["sources"]
    chosen = {key for key, source in sources.items() if source.startswith("Chosen, not fitted")}
    assert chosen == {"verify_tokens", "decode_saturation"}
    assert all(source.startswith("Fitted on the 5 cells") for key, source in sources.items() if key not in chosen)


@pytest.mark.parametrize(("name", "most"), [*((model, 8) for model in TARGETS), ("elmoe3d", 10)])
def test_the_calibrations_that_ship_are_few_figures(name, most):
    figures = tomllib.loads((SHIPPED / f"{name}.toml").read_text())
    sources = figures.pop("sources")
    assert 0 < len(figures) <= most and set(sources) == set(figures)


@pytest.mark.parametrize("model", TARGETS)
def test_the_residuals_in_their_heads_are_what_they_leave(model):
    """So a file is never edited by hand, nor the physics without fitting anew."""
    rows = [predicted(c, load_setup(c.hardware, c.model)) for c in read_cells() if c.model == model]
    head = (SHIPPED / f"{model}.toml").read_text().split("\n\n")[0]
    for mode, error in zip(("phi_ar", "phi_sd"), errors_of(rows), strict=True):
        said = next(line for line in head.splitlines() if mode in line)
        figures = [float(text.split(" %")[0].split()[-1]) for text in said.split(",")]
        np.testing.assert_allclose(figures, [error.mape, error.p90, error.largest], atol=0.006)


@pytest.mark.slow
def test_the_calibrations_that_ship_are_what_fitting_all_cells_gives():
    fit = calibrate(read_cells())
    assert fit.speculation == read_named(Speculation, "calibration", "elmoe3d", SHIPPED)
    for model in TARGETS:
        assert fit.localities[model] == read_named(Locality, "calibration", model, SHIPPED)
