"""A paper's figures beside the predicted ones: as tables, with their errors by role, and as JSON."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from device_model.validation.figures import INPUT, RESISTS, SHOW, PaperFigure, RoleErrors, errors_by_role
from device_model.validation.papers import figures_of
from serving.presentation.table import Table

SIGNIFICANT = 4  # digits
# Relative errors that are explained one by one.
LARGE = 0.2


def published(system: str) -> list[PaperFigure]:
    """Return the figures of a system's paper beside the predicted ones."""
    return list(figures_of(system))


def figures_json(figures: Sequence[PaperFigure]) -> list[dict[str, Any]]:
    """Return each figure as an object."""
    return [figure._asdict() for figure in figures]


def to_json(figures: Sequence[PaperFigure]) -> dict[str, Any]:
    """Return `figures`, and the `errors` of each role, fitted and unfitted apart."""
    return {
        "figures": figures_json(figures),
        "errors": [errors._asdict() for errors in errors_by_role(figures)],
    }


def show(figures: Sequence[PaperFigure], console: Console) -> None:
    """Print what is predicted, then what is shown only, the errors, and the arithmetic of what is far off."""
    predicted = [figure for figure in figures if figure.predicted is not None]
    console.print(_figures(predicted))
    console.print()
    for role, title in ((INPUT, "what the model is given"), (SHOW, "printed, and not predicted")):
        rows = [[f.figure, f.configuration, f.model, _text(f.published)] for f in figures if f.role == role]
        if rows:
            console.print(Table(["figure", "configuration", "model", "paper"], rows, title, words=(0, 1, 2)))
            console.print()
    console.print(_errors(errors_by_role(figures)))
    console.print()
    for figure in predicted:
        if figure.role == RESISTS or abs(figure.off or 0.0) > LARGE:
            console.print(_explained(figure), highlight=False)


def _figures(figures: Sequence[PaperFigure]) -> Table:
    rows = [
        [f.role, _how(f.fitted), f.figure, f.configuration, f.model, _text(f.predicted), _text(f.published), _off(f)]
        for f in figures
    ]
    heads = ["role", "", "figure", "configuration", "model", "predicted", "paper", "off"]
    return Table(heads, rows, words=(0, 1, 2, 3, 4))


def _errors(found: Sequence[RoleErrors]) -> Table:
    rows = [[e.role, _how(e.fitted), str(e.figures), f"{e.mean:.1f}", f"{e.largest:.1f}"] for e in found]
    return Table(["role", "", "n", "mean %", "max"], rows, words=(0, 1))


def _how(fitted: bool) -> str:
    return "fitted" if fitted else ""


def _off(figure: PaperFigure) -> str:
    return "" if figure.off is None else f"{100 * figure.off:+.1f} %"


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.{SIGNIFICANT}g}"


def _explained(figure: PaperFigure) -> str:
    word = "Resists" if figure.role == RESISTS else "Far off"
    place = ", ".join(word for word in (figure.configuration, figure.model) if word)
    return (
        f"{word}: {figure.figure}, {place}: {_text(figure.published)} published, {_text(figure.predicted)} predicted. "
        f"{figure.where}."
    )
