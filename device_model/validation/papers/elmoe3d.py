"""ELMoE-3D (arXiv 2604.14626): the cells of its Table 3, and its headlines."""

from collections.abc import Iterator, Sequence

from device_model.specs.law import Law
from device_model.validation.arithmetic import why_it_resists
from device_model.validation.figures import RESISTS, SCORE, SHOW, PaperFigure
from device_model.validation.headlines import HARDWARE, Headline, headlines, points
from device_model.validation.judgement import JudgedCell, judge
from device_model.validation.table3 import Cell, read_cells

# What follows from cells that were fitted. Nothing is fitted to energies, or to what other platforms do.
ELASTIC_OVER_EAGLE = "Elastic-SD over EAGLE-SD"
FITTED = ("best-mode speedup", ELASTIC_OVER_EAGLE)
SMALL, SMALL_GB = "elmoe3d-4gb", 4.0
# README, "What resists": a step that none of its parts explains, and a maximum below the paper's own Table 3.
RESISTING_CELL = ("DeepSeek-V2-Lite", "Elastic-SD", 8.0, 1)
RESISTING_HEADLINE = "speedup over xPU, max"


def figures() -> list[PaperFigure]:
    """Return all figures of ELMoE-3D, under the realisable law."""
    cells = judge(read_cells(), Law.REALISABLE)
    return figures_from(cells, headlines([cell.row for cell in cells], points()))


def figures_from(cells: Sequence[JudgedCell], found: Sequence[Headline]) -> list[PaperFigure]:
    """Return the figures of cells that are judged, and of headlines."""
    return [*(figure for cell in cells for figure in _of_cell(cell)), *map(_of_headline, found)]


def _of_cell(judged: JudgedCell) -> Iterator[PaperFigure]:
    row = judged.row
    cell = row.cell
    configuration = f"{cell.hardware}, {cell.draft}, batch {cell.batch}"
    where = "ELMoE-3D, Table 3" if cell.given else "ELMoE-3D, Table 3: withheld here"
    if judged.resists:
        where = f"{where}. {why_it_resists(cell, judged.bound).removesuffix('.')}"
    for mode, published, value in (("AR", cell.phi_ar, row.phi_ar), ("SD", cell.phi_sd, row.phi_sd)):
        resists = judged.resists or (mode == "SD" and _resists(cell))
        role = SHOW if published is None else RESISTS if resists else SCORE
        yield PaperFigure(
            figure=f"speedup over the xPU, {mode}",
            configuration=configuration,
            model=cell.model,
            published=published,
            predicted=value,
            role=role,
            fitted=published is not None and not judged.resists,
            where=where,
        )


def _resists(cell: Cell) -> bool:
    return (cell.target, cell.draft, cell.hb_gb, cell.batch) == RESISTING_CELL


def _of_headline(headline: Headline) -> PaperFigure:
    shown = SHOW if headline.reference is None else SCORE
    return PaperFigure(
        figure=headline.figure,
        configuration=_hardware_of(headline),
        model="",
        published=headline.reference,
        predicted=headline.value,
        role=RESISTS if headline.figure == RESISTING_HEADLINE else shown,
        fitted=_is_of_table(headline),
        where=f"ELMoE-3D, {'7.1' if _is_of_table(headline) else '7.2'}: {headline.how}",
    )


def _is_of_table(headline: Headline) -> bool:
    return headline.figure.startswith(FITTED)


def _hardware_of(headline: Headline) -> str:
    """Return the hardware that a headline is of: means of Table 3 may be of either size, or of both."""
    if headline.figure.endswith(f"{SMALL_GB:g} GB"):
        return SMALL
    return f"{SMALL}, {HARDWARE}" if headline.figure.startswith(ELASTIC_OVER_EAGLE) else HARDWARE
