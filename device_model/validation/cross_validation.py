"""Cross-validation of a law: what it predicts of cells that it was not fitted to, left out by cell, model and HB size.

A model that is left out has no figures of its own. It is predicted twice: as `uniform`, which is what a model gets that
nobody has calibrated, and with the mean of the figures of those that were fitted. Which cells a law is to meet (those
that a cache of their size can reach) the shipped figures say, which were fitted to all: the same cells for every split.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, replace
from typing import NamedTuple

import numpy as np

from device_model.specs.calibrated import UNIFORM, Locality
from device_model.specs.law import Law
from device_model.specs.spec_file import CALIBRATION, read_named
from device_model.validation.bound import bound_of
from device_model.validation.calibration import Fit, calibrate
from device_model.validation.cells import CellPrediction, predicted, setup_of
from device_model.validation.errors import Errors, errors_of
from device_model.validation.table3 import Cell

CELL, MODEL, HB_SIZE = "cell", "model", "HB size"
"""What is left out."""
SEED = 0
ALL = "all"
MEAN = "mean of the others"


class LeftOut(NamedTuple):
    """Errors over the cells left out: `by` what, which, and with which figures where these are not the fit's own."""

    by: str
    name: str
    figures: str
    phi_ar: Errors
    phi_sd: Errors


class _Scored(NamedTuple):
    by: str
    name: str
    figures: str
    rows: list[CellPrediction]


def cross_validate(
    cells: Sequence[Cell], law: Law, folds: int, progress: Callable[[str], None] = lambda _: None
) -> list[LeftOut]:
    """Return the errors of each cell, model and HB size left out, and of all of a kind together, over the cells that
    the law is to meet; `progress` hears of each fit. Raise ValueError for folds that the cells don't fill."""
    given = [cell for cell in cells if cell.given]
    if not 2 <= folds <= len(given):
        raise ValueError(f"{folds} folds are not possible; allowed are 2 to {len(given)}, the cells with a speedup")
    judged = [cell for cell in given if law is Law.PUBLISHED or not bound_of(cell, setup_of(cell)).resists(cell)]
    scored: list[_Scored] = []
    for by, name, left in _splits(given, folds):
        progress(f"without {by} {name}")
        fit = calibrate([cell for cell in given if cell not in left], law)
        scored += _score(by, name, [cell for cell in left if cell in judged], fit)
    return [*map(_errors, scored), *_together(scored)]


def _splits(given: list[Cell], folds: int) -> Iterator[tuple[str, str, list[Cell]]]:
    """Yield what is left out, by name, and its cells; a model or a size only if there are others to fit to."""
    order = np.random.default_rng(SEED).permutation(len(given))
    for fold in range(folds):
        yield CELL, f"fold {fold + 1}", [given[index] for index in order[fold::folds]]
    models, sizes = sorted({cell.model for cell in given}), sorted({cell.hb_gb for cell in given})
    for model in models if len(models) > 1 else ():
        yield MODEL, model, [cell for cell in given if cell.model == model]
    for hb_gb in sizes if len(sizes) > 1 else ():
        yield HB_SIZE, f"{hb_gb:g} GB", [cell for cell in given if cell.hb_gb == hb_gb]


def _score(by: str, name: str, cells: list[Cell], fit: Fit) -> Iterator[_Scored]:
    uniform = read_named(Locality, "calibration", UNIFORM, CALIBRATION)
    if by != MODEL:
        # Of a model with few cells all may be left out at once.
        all_of = replace(fit, localities={cell.model: uniform for cell in cells} | fit.localities)
        yield _Scored(by, name, "", [predicted(cell, all_of.setup(cell)) for cell in cells])
        return
    strangers = {UNIFORM: uniform, MEAN: _mean(list(fit.localities.values()))}
    for figures, locality in strangers.items():
        own = replace(fit, localities={name: locality})
        yield _Scored(by, name, figures, [predicted(cell, own.setup(cell)) for cell in cells])


def _mean(localities: Sequence[Locality]) -> Locality:
    """Return the geometric mean of each figure."""
    return Locality(*np.exp(np.log([astuple(locality) for locality in localities]).mean(axis=0)).tolist())


def _together(scored: Sequence[_Scored]) -> Iterator[LeftOut]:
    """Yield the errors of all that is left out of a kind, with the same figures."""
    for by, figures in dict.fromkeys((each.by, each.figures) for each in scored):
        rows = [row for each in scored if (each.by, each.figures) == (by, figures) for row in each.rows]
        yield _errors(_Scored(by, ALL, figures, rows))


def _errors(scored: _Scored) -> LeftOut:
    return LeftOut(*scored[:3], *errors_of(scored.rows))
