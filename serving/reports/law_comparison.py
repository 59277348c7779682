"""Both laws beside each other: how far off each is, the headlines, and what speculating brings under either."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console

from device_model.acceptance import acceptance_of, batch_plan
from device_model.load import load_device
from device_model.specs.law import Law
from device_model.validation.errors import Errors
from device_model.validation.headlines import TARGETS, Headline, headlines, points
from device_model.validation.judgement import JudgedCell, errors_under
from serving.device.drafting_by_law import MOST, faster_in
from serving.device.drafting_ranges import told_ranges
from serving.policies.step_options import StepOptions
from serving.presentation.table import Table

HARDWARE = ("elmoe3d-4gb", "elmoe3d-8gb")
SMALLEST, LARGEST = 1, 16
"""The batches of Table 3 between which acceptance lies."""


class Speculating(NamedTuple):
    """What Elastic-SD does: the batches in which it is faster than AR at 1k context, and the tokens that one of its
    steps yields a sequence at the smallest and at the largest batch of Table 3."""

    target: str
    hardware: str
    faster_in: tuple[range, ...]
    depth: int
    tokens_smallest: float
    tokens_largest: float


class LawFigures(NamedTuple):
    """What comes out under a law. Errors are over the cells that it is to meet."""

    law: Law
    phi_ar: Errors
    phi_sd: Errors
    beyond_hb: int
    headlines: list[Headline]
    speculating: list[Speculating]


def compare_laws(judged: Mapping[Law, Sequence[JudgedCell]]) -> list[LawFigures]:
    """Return the figures of each law."""
    return [_figures(law, cells) for law, cells in judged.items()]


def _figures(law: Law, cells: Sequence[JudgedCell]) -> LawFigures:
    found = headlines([cell.row for cell in cells], points(law))
    speculating = [_speculating(target, hardware, law) for target in TARGETS for hardware in HARDWARE]
    return LawFigures(law, *errors_under(law, cells), sum(cell.beyond_hb for cell in cells), found, speculating)


def _speculating(target: str, hardware: str, law: Law) -> Speculating:
    device = load_device("elmoe3d", hardware, target.lower(), "elastic", law=law)
    options = StepOptions(device)
    depth = options.calibrated
    tokens = [1 + acceptance_of(device, batch_plan(batch)).alpha * depth for batch in (SMALLEST, LARGEST)]
    return Speculating(target, hardware, faster_in(options), depth, *tokens)


def laws_json(laws: Sequence[LawFigures]) -> list[dict[str, Any]]:
    """Return each law as an object."""
    return [
        law._asdict()
        | {
            "phi_ar": law.phi_ar._asdict(),
            "phi_sd": law.phi_sd._asdict(),
            "headlines": {headline.figure: headline.value for headline in law.headlines},
            "speculating": [
                each._asdict() | {"faster_in": [[run[0], run[-1]] for run in each.faster_in]}
                for each in law.speculating
            ],
        }
        for law in laws
    ]


def show_laws(laws: Sequence[LawFigures], console: Console) -> None:
    """Print the laws side by side."""
    rows = [
        *_side_by_side("error of phi_ar, mean %", [law.phi_ar.mape for law in laws]),
        *_side_by_side("error of phi_sd, mean %", [law.phi_sd.mape for law in laws]),
        ["cells judged by", *(str(law.phi_ar.cells) for law in laws)],
        ["cells beyond HB", *(str(law.beyond_hb) for law in laws)],
    ]
    for each in zip(*(law.headlines for law in laws), strict=True):
        rows += _side_by_side(each[0].figure, [headline.value for headline in each])
    console.print(Table(["", *(law.law for law in laws)], rows, "Both laws", words=(0,)))
    console.print()
    heads = [
        "target",
        "hardware",
        *(f"{what}, {law.law}" for law in laws for what in ("faster in batches", "tokens a step")),
    ]
    speculating = [_speculating_row(each) for each in zip(*(law.speculating for law in laws), strict=True)]
    console.print(Table(heads, speculating, "Elastic-SD under both laws", words=(0, 1)))
    console.print()


def _side_by_side(name: str, values: Sequence[float]) -> list[list[str]]:
    return [[name, *(f"{value:.2f}" for value in values)]]


def _speculating_row(by_law: Sequence[Speculating]) -> list[str]:
    row = [by_law[0].target, by_law[0].hardware]
    for each in by_law:
        row += [
            told_ranges(each.faster_in, MOST),
            f"{each.tokens_smallest:.1f} to {each.tokens_largest:.1f} of {each.depth + 1}",
        ]
    return row
