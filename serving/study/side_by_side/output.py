"""Output of a comparison of hardware: in a terminal, as JSON, and as files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from serving.presentation.csv_rows import write_csv
from serving.presentation.table import Table
from serving.process.output_folder import writing
from serving.study.caveats import caveats
from serving.study.report.units import Scale, scale, share
from serving.study.results import Results
from serving.study.side_by_side.comparison import PARTS, HardwareFigures, compared
from serving.study.side_by_side.picture import write_picture
from serving.study.side_by_side.verdict import sentences
from serving.study.terminal_table import figure

LATENCIES = {
    "TTFT": "ttft_mean_s",
    "p50": "ttft_p50_s",
    "p99": "ttft_p99_s",
    "TPOT": "tpot_mean_s",
    "p50 ": "tpot_p50_s",
    "p99 ": "tpot_p99_s",
    "E2E": "e2e_mean_s",
}


class Comparison(NamedTuple):
    """The figures of all hardware that could be run, what they say, and whether the study has targets of its own."""

    title: str
    answer: list[str]
    hardware: list[HardwareFigures]
    targets: bool


def side_by_side(results: Results) -> Comparison:
    """Return what a study of hardware found."""
    found, targets = compared(results), results.study.has_targets
    answer = [*sentences(found, targets), *caveats(results)]
    return Comparison(results.study.title, answer, found, targets)


def to_json(found: Comparison) -> dict[str, Any]:
    """Return `title`, `answer` and `hardware`."""
    return {"title": found.title, "answer": found.answer, "hardware": [each.told for each in found.hardware]}


def show(found: Comparison, console: Console) -> None:
    """Print the answer and the tables, if there is any hardware that could be run."""
    if not found.hardware:
        return
    console.print("\n".join(found.answer), markup=False)
    for table in (figures_table(found.hardware, found.targets), energy_table(found.hardware)):
        console.print()
        console.print(table)


def write(found: Comparison, folder: Path) -> Path | None:
    """Write a table and a picture into a folder; return the picture's path, or None if no hardware could be run. Raise
    CommandFailed if that fails."""
    if not found.hardware:
        return None
    with writing(folder, f"The study's own report and tables lie in {folder}."):
        write_csv([each.csv_row for each in found.hardware], folder / "comparison.csv")
        [picture] = write_picture(found.hardware, found.title, folder)
    return picture


def figures_table(found: Sequence[HardwareFigures], asked: bool) -> Table:
    """Return latencies, throughput, joules and swaps, a row each; if `asked`, the share within targets; and caveats, if
    there are any."""
    scales = {head: scale(name, [each[name] for each in found]) for head, name in LATENCIES.items()}
    heads = ["hardware", *(f"{head.strip()}, {scales[head].unit}" for head in LATENCIES), "tokens/s", "mJ/token"]
    heads += ["swaps", "swapping, ms", *(["within SLO"] if asked else []), "refused"]
    rows = [_row(each, scales, asked) for each in found]
    if not any(each.caveats for each in found):
        return Table(heads, rows)
    rows = [[*row, each.caveats] for row, each in zip(rows, found, strict=True)]
    return Table([*heads, "caveats"], rows, words=(0, len(heads)))


def _row(each: HardwareFigures, scales: dict[str, Scale], asked: bool) -> list[str]:
    cells = [scales[head].number(each[name]) for head, name in LATENCIES.items()]
    cells += [f"{each['tokens_per_s']:,.1f}", f"{each['j_per_token'] * 1e3:,.2f}"]
    cells += [f"{each['swaps']:,.0f}", figure(each["swap_s"] * 1e3)]
    cells += [share(round(each["attainment"], 4))] if asked else []
    return [each.hardware, *cells, f"{each['refused']:g}"]


def energy_table(found: Sequence[HardwareFigures]) -> Table:
    """Return mJ per token by component, a row each: tiers with the names that they have there."""
    heads = ["mJ/token", *(f"{name} tier" if name in ("fast", "slow") else name for name in PARTS)]
    return Table(heads, [_energy_row(each) for each in found])


def _energy_row(each: HardwareFigures) -> list[str]:
    tiers = (each.tiers.fast, each.tiers.slow)
    named = [f"{name} " if name in tiers else "" for name in each.energy]
    cells = zip(named, each.energy.values(), strict=True)
    return [each.hardware, *(f"{name}{joules * 1e3:,.2f}" for name, joules in cells)]
