"""Is what is left out of a fit predicted by the rest alone, and each cell once?"""

import pytest

from device_model.specs.law import Law
from device_model.validation.cross_validation import CELL, HB_SIZE, MEAN, MODEL, UNIFORM, cross_validate
from device_model.validation.table3 import read_cells

CELLS = [
    cell
    for cell in read_cells()
    if cell.given and cell.draft in ("Quant-SD", "Elastic-SD") and cell.model in ("qwen3-30b-a3b", "deepseek-v2-lite")
]
# Of one model, and too few for folds of equal size.
ONE_MODEL = [cell for cell in CELLS if cell.model == "deepseek-v2-lite" and cell.hb_gb == 8][::2]


@pytest.mark.slow
def test_each_cell_is_left_out_once() -> None:
    heard: list[str] = []
    rows = cross_validate(ONE_MODEL, Law.PUBLISHED, 2, heard.append)
    assert [(row.by, row.name) for row in rows] == [(CELL, "fold 1"), (CELL, "fold 2"), (CELL, "all")]
    assert heard == ["without cell fold 1", "without cell fold 2"]
    assert rows[0].phi_ar.cells + rows[1].phi_ar.cells == rows[2].phi_ar.cells == len(ONE_MODEL) == 3
    mean = sum(row.phi_ar.mape * row.phi_ar.cells for row in rows[:2]) / len(ONE_MODEL)
    assert rows[2].phi_ar.mape == pytest.approx(mean)


@pytest.mark.slow
def test_models_and_sizes_are_left_out_whole_and_a_stranger_has_no_figures_of_its_own() -> None:
    rows = cross_validate(CELLS, Law.REALISABLE, 2)
    found = {(row.by, row.name, row.figures): row for row in rows}
    for model in ("qwen3-30b-a3b", "deepseek-v2-lite"):
        uniform, mean = found[MODEL, model, UNIFORM], found[MODEL, model, MEAN]
        assert uniform.phi_ar.cells == mean.phi_ar.cells > 0
        assert uniform.phi_ar.mape > 5 and mean.phi_ar.mape > 5  # a model's own figures are worth that much
    assert (HB_SIZE, "4 GB", "") in found and (HB_SIZE, "8 GB", "") in found
    assert found[CELL, "all", ""].phi_ar.mape < 10


@pytest.mark.parametrize("folds", [1, len(CELLS) + 1])
def test_folds_that_the_cells_do_not_fill_are_refused(folds: int) -> None:
    with pytest.raises(ValueError, match=f"{folds} folds are not possible; allowed are 2 to {len(CELLS)}"):
        cross_validate(CELLS, Law.REALISABLE, folds)


@pytest.mark.slow
def test_a_model_whose_cells_are_all_left_out_at_once_is_a_stranger() -> None:
    """As one with a single cell is in a table of one's own."""
    (lone,) = [cell for cell in CELLS if cell.model == "qwen3-30b-a3b" and cell.hb_gb == 8 and cell.batch == 4][:1]
    rows = cross_validate([*ONE_MODEL, lone], Law.PUBLISHED, 2)
    assert next(row for row in rows if (row.by, row.name) == (CELL, "all")).phi_ar.cells == len(ONE_MODEL) + 1
