"""`foreserve validate`: what the device model predicts under a law, beside what the papers print."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from device_model.specs.law import Law
from device_model.validation.arithmetic import arithmetic, why_it_resists
from device_model.validation.errors import Errors
from device_model.validation.headlines import Headline, HeadlinePoint, headlines, points
from device_model.validation.judgement import JudgedCell, errors_under, judge
from device_model.validation.papers.elmoe3d import figures_from
from device_model.validation.table3 import TABLE3, Cell, read_cells
from serving.presentation.table import Table
from serving.reports.law_comparison import LawFigures, compare_laws, laws_json, show_laws
from serving.reports.published_figures import figures_json
from serving.usage_error import UsageError

# Relative errors that are explained one by one.
LARGE = 0.2


class Validation:
    """All predictions, computed once: `cells`, `points` and `headlines` under `law`, `laws` under both."""

    def __init__(self, reference: Path | None, law: Law) -> None:
        cells = read_cells(reference or TABLE3)
        if not cells:
            raise UsageError(f"{reference} has no cell; a validation needs at least one row.")
        self.law = law
        self.judged = {each: judge(cells, each) for each in Law}
        self.cells = self.judged[law]
        self.laws: list[LawFigures] = compare_laws(self.judged)
        self.points: list[HeadlinePoint] = points(law)
        self.headlines: list[Headline] = headlines([cell.row for cell in self.cells], self.points)

    def errors(self) -> list[tuple[str, str, Errors, Errors]]:
        """By model and scheme, by model, by scheme, and of all: (model, scheme, of phi_ar, of phi_sd), over the cells
        that the law is to meet."""
        targets = list(dict.fromkeys(judged.row.cell.target for judged in self.cells))
        drafts = list(dict.fromkeys(judged.row.cell.draft for judged in self.cells))
        groups = [(target, draft) for target in [*targets, "all"] for draft in [*drafts, "all"]]
        return [(*group, *errors_under(self.law, [*filter(partial(_in, *group), self.cells)])) for group in groups]


def draw(validation: Validation, folder: Path) -> list[Path]:
    """Draw the predictions in a folder, as PNG files; return their paths. Raise UsageError if it can't be made."""
    from serving.reports.validate_plots import draw

    return draw(validation.cells, validation.points, folder)


def to_json(validation: Validation) -> dict[str, Any]:
    """`cells`, `errors` and `headlines` under the law, all of them as `figures`, and both laws beside each other."""
    other = next(law for law in Law if law is not validation.law)
    return {
        "law": validation.law,
        "cells": [_cell(*pair, other) for pair in zip(validation.cells, validation.judged[other], strict=True)],
        "errors": [
            {"target": target, "draft": draft, "phi_ar": ar._asdict(), "phi_sd": sd._asdict()}
            for target, draft, ar, sd in validation.errors()
        ],
        "headlines": [headline._asdict() for headline in validation.headlines],
        "laws": laws_json(validation.laws),
        "figures": figures_json(figures_from(validation.cells, validation.headlines)),
    }


def _cell(judged: JudgedCell, by_other: JudgedCell, other: Law) -> dict[str, Any]:
    row, bound = judged.row, judged.bound
    cell = row.cell
    return {
        "hb_gb": int(cell.hb_gb) if cell.hb_gb.is_integer() else cell.hb_gb,
        "target": cell.target,
        "draft": cell.draft,
        "batch": cell.batch,
        "alpha": cell.alpha,
        "phi_ar": round(row.phi_ar, 4),
        "phi_sd": round(row.phi_sd, 4),
        "phi_ar_ref": cell.phi_ar,
        "phi_sd_ref": cell.phi_sd,
        "hits_ar": round(row.hits_ar, 2),
        "slices": round(bound.slices, 2),
        "needed": None if bound.needed is None else round(bound.needed, 2),
        "highest_phi_ar": round(bound.highest_phi_ar, 4),
        "resists": judged.resists,
        "beyond_hb": judged.beyond_hb,
        other: {
            "phi_ar": round(by_other.row.phi_ar, 4),
            "phi_sd": round(by_other.row.phi_sd, 4),
            "hits_ar": round(by_other.row.hits_ar, 2),
            "beyond_hb": by_other.beyond_hb,
        },
    }


def _in(target: str, draft: str, judged: JudgedCell) -> bool:
    return target in ("all", judged.row.cell.target) and draft in ("all", judged.row.cell.draft)


def show(validation: Validation, console: Console) -> None:
    """Print the predictions as tables."""
    for table in (_cells(validation), _summary(validation), _headlines(validation)):
        console.print(table)
        console.print()
    show_laws(validation.laws, console)
    for line in [*beyond(validation), *resisting(validation.cells, validation.law)]:
        console.print(line, highlight=False)


def _cells(validation: Validation) -> Table:
    both = [validation.judged[law] for law in Law]
    rows = [_row(bounded, published) for bounded, published in zip(*both, strict=True)]
    laws = [column for law in Law for column in (f"AR {law}", "AR off", f"SD {law}", "SD off")]
    heads = ["HB", "target", "draft", "batch", "alpha", "AR paper", "highest", "SD paper", *laws]
    heads += [f"hits {Law.PUBLISHED}", "held", ""]
    return Table(heads, rows, words=(1, 2, len(heads) - 1), keys=heads.index("alpha") + 1)


def _row(bounded: JudgedCell, published: JudgedCell) -> list[str]:
    """Return a cell beside both laws, with the hits of AR that the published one has, and what HB holds."""
    cell = bounded.row.cell
    by_law = [
        text
        for row in (bounded.row, published.row)
        for pair in ((row.phi_ar, cell.phi_ar), (row.phi_sd, cell.phi_sd))
        for text in _off(*pair)
    ]
    note = "resists" if bounded.resists else "beyond HB if as published" if published.beyond_hb else ""
    return [
        *(f"{cell.hb_gb:g}", cell.target, cell.draft, str(cell.batch), f"{cell.alpha:.2f}"),
        *(_given(cell.phi_ar), f"{bounded.bound.highest_phi_ar:.2f}", _given(cell.phi_sd), *by_law),
        *(f"{published.row.hits_ar:,.0f}", f"{published.bound.slices:,.0f}", note),
    ]


def _given(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _off(value: float, reference: float | None) -> tuple[str, str]:
    return f"{value:.2f}", "" if reference is None else f"{100 * (value / reference - 1):+.1f} %"


def _summary(validation: Validation) -> Table:
    rows = []
    for target, draft, *errors in validation.errors():
        off = [text for e in errors for text in (f"{e.mape:.1f}", f"{e.p90:.1f}", f"{e.largest:.1f}", str(e.cells))]
        rows.append([target, draft, *off])
    heads = [f"{mode} {what}" for mode in ("AR", "SD") for what in ("mean %", "p90", "max", "n")]
    resisting = sum(judged.resists for judged in validation.cells)
    without = f", without the {resisting} cells that resist" if validation.law is Law.REALISABLE and resisting else ""
    return Table(["target", "draft", *heads], rows, f"Errors under the law {validation.law}{without}", words=(0, 1))


def _headlines(validation: Validation) -> Table:
    rows = []
    for each in validation.headlines:
        value, off = _off(each.value, each.reference)
        rows.append([each.figure, value, _given(each.reference), off, each.how])
    title = f"Headlines under the law {validation.law}"
    return Table(["headline", "predicted", "paper", "off", "how"], rows, title, words=(0, 4))


def beyond(validation: Validation) -> list[str]:
    """Return the sentence that says of how many cells the law promises more than HB can serve."""
    count = sum(judged.beyond_hb for judged in validation.cells)
    if not count:
        return []
    return [
        f"Under the law {validation.law} HB serves more experts in a step of AR than it holds, in {count} of "
        f"{len(validation.cells)} cells: no cache can do that."
    ]


def resisting(cells: Sequence[JudgedCell], law: Law) -> list[str]:
    """Return the published figures that no cache reaches or that the model misses by far, with the arithmetic."""
    lines = []
    for judged in cells:
        row = judged.row
        if judged.resists:
            lines.append(f"Resists: {_name(row.cell)}: {why_it_resists(row.cell, judged.bound)}")
            continue
        for mode, value, reference in (("AR", row.phi_ar, row.cell.phi_ar), ("SD", row.phi_sd, row.cell.phi_sd)):
            if reference and abs(value / reference - 1) > LARGE:
                lines.append(
                    f"{_name(row.cell)}: {mode} {value:.2f} where the paper has {reference:.2f}. "
                    f"{arithmetic(row.cell, mode, reference, law)}"
                )
    return lines


def _name(cell: Cell) -> str:
    return f"{cell.hb_gb:g} GB, {cell.target}, {cell.draft}, batch {cell.batch}"
