"""Is a calibration repeatable, written so that it loads again, and as few figures as was promised?"""

import dataclasses
import tomllib

import numpy as np
import pytest

from device_model.load import load_setup
from device_model.specs.calibrated import Locality, Speculation
from device_model.specs.law import Law
from device_model.specs.spec_file import CALIBRATION, read_named
from device_model.validation.calibration import CHOSEN, OF_DEVICE, OF_MODEL, Fit, calibrate, reached
from device_model.validation.calibration_file import write_calibration
from device_model.validation.cells import predicted, setup_of
from device_model.validation.errors import errors_of
from device_model.validation.table3 import read_cells

MODEL = "deepseek-v2-lite"
CELLS = [
    cell for cell in read_cells() if cell.model == MODEL and cell.hb_gb == 8 and cell.draft in ("EAGLE3", "Elastic-SD")
]
TARGETS = ("qwen3-30b-a3b", "glm-4.7-flash", "deepseek-v2-lite", "gpt-oss-20b")


@pytest.fixture(scope="module")
def fit():
    return calibrate(CELLS)


@pytest.fixture
def written(fit, tmp_path):
    write_calibration(fit, CELLS, "mine.csv", "2026-01-02", tmp_path / "made" / "here")
    return tmp_path / "made" / "here" / "realisable"


@pytest.mark.slow
def test_the_same_cells_give_the_same_figures_to_the_last_digit(fit):
    assert calibrate(CELLS) == fit


@pytest.mark.slow
def test_a_fit_is_near_what_it_was_fitted_to(fit):
    ar, sd = errors_of(predicted(cell, fit.setup(cell)) for cell in CELLS)
    assert ar.cells == sd.cells == 5
    assert ar.mape < 3 and sd.mape < 10


def test_a_law_is_fitted_to_what_it_can_reach():
    """Two cells: a batch of 16 at 4 GB asks for more than HB holds, one of 1 for less."""
    found = [cell for cell in read_cells() if (cell.model, cell.draft, cell.hb_gb) == (MODEL, "Elastic-SD", 4)]
    given = [cell for cell in found if cell.batch in (1, 16)]
    shipped = {law: calibrate_shipped(law) for law in Law}
    assert [cell.batch for cell in reached(given, shipped[Law.REALISABLE])] == [1]
    assert reached(given, shipped[Law.PUBLISHED]) == given


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_is_written_loads_again_with_the_same_figures(fit, written):
    assert sorted(path.stem for path in written.iterdir()) == [MODEL, "elmoe3d"]
    assert read_named(Locality, "calibration", MODEL, written) == fit.localities[MODEL]
    assert read_named(Speculation, "calibration", "elmoe3d", written) == fit.speculation


@pytest.mark.slow
@pytest.mark.parametrize("name", [MODEL, "elmoe3d"])
def test_its_head_says_what_it_was_fitted_on_when_and_how_well(fit, written, name):
    head = (written / f"{name}.toml").read_text().split("\n\n")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    ar, sd = errors_of(predicted(cell, fit.setup(cell)) for cell in CELLS)
    for said in ("fitted, not published", "2026-01-02", "Fitted on 5 cells of mine.csv"):
        assert said in head
    assert f"Residuals of phi_ar: mean {ar.mape:.2f} %, p90 {ar.p90:.2f} %, largest {ar.largest:.2f} %." in head
    assert f"Residuals of phi_sd: mean {sd.mape:.2f} %, p90 {sd.p90:.2f} %, largest {sd.largest:.2f} %." in head


@pytest.mark.slow
def test_what_was_chosen_is_told_from_what_was_fitted(written):
    sources = tomllib.loads((written / "elmoe3d.toml").read_text())["sources"]
    chosen = {key for key, source in sources.items() if source.startswith("Chosen, not fitted")}
    assert chosen == {"verify_tokens", "eagle_read_share"}
    assert all(source.startswith("Fitted on the 5 cells") for key, source in sources.items() if key not in chosen)


@pytest.mark.parametrize("law", Law)
@pytest.mark.parametrize(("name", "most"), [*((model, 8) for model in TARGETS), ("elmoe3d", 10)])
def test_the_calibrations_that_ship_are_few_figures(law, name, most):
    figures = tomllib.loads((CALIBRATION / law / f"{name}.toml").read_text())
    sources = figures.pop("sources")
    assert 0 < len(figures) <= most and set(sources) == set(figures)


@pytest.mark.parametrize("law", Law)
def test_a_law_has_no_more_fitted_figures_than_promised(law):
    files = [
        tomllib.loads((CALIBRATION / law / f"{name}.toml").read_text())["sources"] for name in (*TARGETS, "elmoe3d")
    ]
    fitted = [source for sources in files for source in sources.values() if source.startswith("Fitted")]
    assert len(fitted) == 4 * len(OF_MODEL) + len(OF_DEVICE) == 26
    assert sum(source.startswith("Chosen") for sources in files for source in sources.values()) == len(CHOSEN)


def calibrate_shipped(law):
    """The fit that ships, as if it had just been made."""
    setups = {model: load_setup("elmoe3d-8gb", model, law) for model in TARGETS}
    localities = {model: setup.locality for model, setup in setups.items()}
    return Fit(law, setups[TARGETS[0]].speculation, localities)


@pytest.mark.parametrize("law", Law)
@pytest.mark.parametrize("model", TARGETS)
def test_the_residuals_in_their_heads_are_what_they_leave(law, model):
    """So a file is never edited by hand, nor the physics without fitting anew."""
    cells = reached([c for c in read_cells() if c.model == model and c.given], calibrate_shipped(law))
    rows = [predicted(c, setup_of(c, law)) for c in cells]
    head = (CALIBRATION / law / f"{model}.toml").read_text().split("\n\n")[0]
    assert f"Fitted on {len(cells)} cells" in head
    for mode, error in zip(("phi_ar", "phi_sd"), errors_of(rows), strict=True):
        said = next(line for line in head.splitlines() if mode in line)
        figures = [float(text.split(" %")[0].split()[-1]) for text in said.split(",")]
        np.testing.assert_allclose(figures, [error.mape, error.p90, error.largest], atol=0.006)


@pytest.mark.slow
@pytest.mark.parametrize("law", Law)
def test_the_calibrations_that_ship_are_what_fitting_all_cells_gives(law):
    assert calibrate(read_cells(), law) == calibrate_shipped(law)
