"""Judgement of Table 3's cells under a law: what is predicted, what any cache allows, and whether the cell resists."""

from collections.abc import Sequence
from typing import NamedTuple

from device_model.specs.law import Law
from device_model.validation.bound import Bound, bound_of
from device_model.validation.cells import CellPrediction, predicted, setup_of
from device_model.validation.errors import Errors, errors_of
from device_model.validation.table3 import Cell


class JudgedCell(NamedTuple):
    """A cell as predicted under a law, beside its bound and whether it resists it, which are the realisable law's
    whatever the law."""

    row: CellPrediction
    bound: Bound
    resists: bool

    @property
    def beyond_hb(self) -> bool:
        """Tell whether HB would have to serve more experts in a step of AR than it holds."""
        return self.row.hits_ar > self.bound.slices * (1 + 1e-9)


def judge(cells: Sequence[Cell], law: Law) -> list[JudgedCell]:
    """Judge each cell. Raise DeviceError for one of unknown hardware or model."""
    return [_judged(cell, law) for cell in cells]


def _judged(cell: Cell, law: Law) -> JudgedCell:
    setup = setup_of(cell, law)
    bound = bound_of(cell, setup_of(cell))
    resists = bound.resists(cell)
    own = bound if law is Law.REALISABLE else bound._replace(slices=bound_of(cell, setup).slices)
    return JudgedCell(predicted(cell, setup), own, resists)


def errors_under(law: Law, cells: Sequence[JudgedCell]) -> tuple[Errors, Errors]:
    """Return the errors of phi_ar and of phi_sd over the cells that a law is to meet: under the realisable one, those
    that do not resist."""
    return errors_of(cell.row for cell in cells if law is Law.PUBLISHED or not cell.resists)
