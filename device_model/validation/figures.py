"""A published figure beside the predicted one, whatever the system, and how far predictions are off, by role."""

from collections.abc import Iterable
from typing import NamedTuple

SCORE, CHECK, ORDER, INPUT, SHOW, RESISTS = ROLES = ("score", "check", "order", "input", "show", "resists")
"""score: a model predicts it. check: it follows from other published figures. order: a ranking, as the share of cases
in which it holds. input: the model needs it. show: printed beside, with nothing demanded. resists: it contradicts
others of its paper."""


class PaperFigure(NamedTuple):
    """A figure of a paper. `fitted`: constants were fitted to it. `where` says where the paper has it, and what was
    assumed."""

    figure: str
    configuration: str
    model: str
    published: float | None
    predicted: float | None
    role: str
    fitted: bool
    where: str

    @property
    def off(self) -> float | None:
        """The relative error."""
        if self.published is None or self.predicted is None or not self.published:
            return None
        return self.predicted / self.published - 1


class RoleErrors(NamedTuple):
    """Relative errors in percent of the figures of a role, fitted or not: their number, mean and largest magnitude."""

    role: str
    fitted: bool
    figures: int
    mean: float
    largest: float


def errors_by_role(figures: Iterable[PaperFigure]) -> list[RoleErrors]:
    """Return the errors of each role that has a predicted figure, fitted and unfitted apart."""
    figures = list(figures)
    groups = [(role, fitted) for role in ROLES for fitted in (True, False)]
    found = []
    for role, fitted in groups:
        off = [abs(f.off) for f in figures if f.role == role and f.fitted == fitted and f.off is not None]
        if off:
            found.append(RoleErrors(role, fitted, len(off), 100 * sum(off) / len(off), 100 * max(off)))
    return found
