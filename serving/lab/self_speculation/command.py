"""`foreserve speculate`: measure a checkpoint's self-drafts, and write figures, pictures and a report."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from serving.lab.self_speculation.cases import DEPTH, Case, cases
from serving.lab.self_speculation.decode import DecodePlan
from serving.lab.self_speculation.measure import Checkpoint, measure
from serving.lab.self_speculation.rates import rates_csv
from serving.lab.self_speculation.record import AcceptanceRecord
from serving.lab.self_speculation.report.claims import claims
from serving.lab.self_speculation.report.plots import draw
from serving.lab.self_speculation.report.text import markdown, rows
from serving.lab.self_speculation.texts import Texts
from serving.lab.self_speculation.weights import digest, load
from serving.presentation.table import Table
from serving.presentation.wide_console import wide_console
from serving.process.output_folder import make_folder, write_text


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    model: Path
    quick: bool
    seed: int
    prompts: int
    new_tokens: int
    out: Path | None
    date: str | None


def speculate(options: Options) -> int:
    """Measure and print; with `out`, write acceptance.json, rates.csv, PNG files and report.md there."""
    if options.out is not None:
        make_folder("--out", options.out)
    found = acceptance(options)
    if options.out is not None:
        # First, so that what was measured stays whatever becomes of the rest.
        found.write(options.out / "acceptance.json")
    print_tables(found)
    if options.out is not None:
        write_text("--out", options.out / "report.md", markdown(found))
        write_text("--out", options.out / "rates.csv", rates_csv(found))
        for path in draw(found, options.out):
            _say(f"Drawn: {path}")
    return 0


def acceptance(options: Options) -> AcceptanceRecord:
    """Everything measured, on one thread: more would add up in another order, and flip a token now and then."""
    torch.set_num_threads(1)
    texts = Texts(options.model)
    checkpoint = Checkpoint(load(options.model), texts.calibration(options.seed))
    figures = cases(len(checkpoint.weights.layers), options.quick)
    wanted = list(dict.fromkeys(case for found in figures.values() for case in found))
    prompts = texts.held_out(options.prompts, options.seed)
    plan = DecodePlan(new_tokens=options.new_tokens, seed=options.seed)
    points = measure(checkpoint, _ordered(wanted), prompts, plan, _Progress())
    about = _about(options, checkpoint)
    return AcceptanceRecord(about, {name: [points[case] for case in found] for name, found in figures.items()})


def print_tables(found: AcceptanceRecord) -> None:
    """Print what the papers print beside ours, and what they say of shapes."""
    console = wide_console()
    heads = ["source", "figure", "published", "measured"]
    console.print(Table(heads, rows(found), "Acceptance, measured", words=(0, 1)))
    said = []
    for claim in claims(found):
        verdict = ("true" if claim.holds else "FALSE") + ("" if claim.clear else " ~")
        said.append([verdict, claim.source, claim.text, claim.figures])
    console.print(Table(["", "source", "statement", "figures"], said, "What the papers say of shapes", words=range(4)))
    console.print("~ within errors: some difference is below two standard errors")


def _about(options: Options, checkpoint: Checkpoint) -> dict[str, Any]:
    date = {"date": options.date} if options.date else {}
    return date | {
        "model": digest(options.model),
        "seed": options.seed,
        "prompts": options.prompts,
        "new_tokens": options.new_tokens,
        "depth": DEPTH,
        "quick": options.quick,
        "dtype": str(checkpoint.weights.head.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "exponents": checkpoint.cassandra.exponents._asdict(),
    }


def _ordered(wanted: list[Case]) -> list[Case]:
    """Those that share a draft's weights behind each other."""
    return sorted(wanted, key=lambda case: (case.family, case.treatment, case.bits, case.pruned, case.dropped))


class _Progress:
    """A line on stderr for each point, with the seconds since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def __call__(self, text: str) -> None:
        _say(f"{time.monotonic() - self._start:6.0f} s  {text}")


def _say(text: str) -> None:
    print(text, file=sys.stderr)
