"""`foreserve study`: answer a capacity question in virtual time, and print the answer."""

import argparse
import json
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serving.cli.study_run import RESULTS, run_shown
from serving.scenario.options import positive

if TYPE_CHECKING:
    from serving.study.results import Results

MOST_SHOWN = 40


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    study = commands.add_parser("study", help="answer a capacity question in virtual time")
    study.add_argument("study", type=Path, metavar="STUDY.toml", help="what is run, what is varied, what is asked")
    study.add_argument("--out", type=Path, metavar="DIR", help=f"keep it there (default: {RESULTS}/NAME)")
    study.add_argument("--cores", type=positive, metavar="N", help="use so many (default: all; or RAY_ADDRESS's)")
    study.add_argument("--requests", type=positive, metavar="N", help="at most so many in each run, to try it in small")
    study.add_argument("--fresh", action="store_true", help="make all points anew, also those that are kept in DIR")
    study.add_argument("--open", action="store_true", help="open the report in a browser when done")
    study.add_argument("--json", action="store_true", help="print answers and points as JSON on stdout")
    study.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve study`; return 1 if any of its points failed, else 0."""
    from serving.study.spec import load_study

    results = run_shown(
        load_study(args.study, args.requests), args.out or RESULTS / args.study.stem, args.cores, args.fresh
    )
    _say(results, args.json)
    if args.open and not webbrowser.open(results.report.resolve().as_uri()):
        print(f"No browser was found: open {results.report} in one.", file=sys.stderr)
    return 1 if results.failed else 0


def _say(results: "Results", as_json: bool) -> None:
    from serving.study.store import point_row

    points = [point_row(finding) for finding in results.findings]
    if as_json:
        print(json.dumps({"answers": results.answer_rows, "points": points}, indent=1))
    else:
        _print_answers(results, points)
    print(f"Report: {results.report} (tables beside it)", file=sys.stderr)


def _print_answers(results: "Results", points: list[dict[str, Any]]) -> None:
    """Print the answers as a table; if there are none, the points."""
    from serving.presentation.wide_console import wide_console
    from serving.study.terminal_table import table_of

    console = wide_console()
    made = [row for row in points if not row["error"]]
    console.print(results.study.title, style="bold", highlight=False, markup=False)
    if not made:
        console.print(f"None of {len(points)} points could be made.")
        return
    if not results.answer_rows:
        console.print(f"No combination keeps its targets. The first of {len(made)} points:")
    if not results.study.has_targets:
        console.print("There are no targets (`slo`, or classes that requests name), so every request keeps them.")
    console.print(table_of(results.answer_rows or made[:MOST_SHOWN]))
    if any(row.get("kept") is False for row in results.answer_rows):
        console.print("No place keeps all bounds (`where`): this is the one that is closest.")
