"""`foreserve study`: answer a capacity question in virtual time, and print the answer."""

import argparse
import sys
import webbrowser

from serving.cli.arguments.report import ROWS, add_json, add_law, add_out, tell
from serving.cli.study_run import RESULTS, run_shown
from serving.scenario.options import named_path, positive


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    study = commands.add_parser("study", help="answer a capacity question in virtual time")
    study.add_argument(
        "study", type=named_path, metavar="STUDY.toml", help="what is run, what is varied, what is asked"
    )
    add_out(study, f"keep it there (default: {RESULTS}/NAME)")
    study.add_argument("--cores", type=positive, metavar="N", help="use so many (default: all; or RAY_ADDRESS's)")
    study.add_argument("--requests", type=positive, metavar="N", help="at most so many in each run, to try it in small")
    add_law(study, default=None, shown="the file's")
    study.add_argument("--fresh", action="store_true", help="make all points anew, also those that are kept in DIR")
    study.add_argument("--open", action="store_true", help="open the report in a browser when done")
    add_json(study, "answers and points")
    study.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve study`; return 1 if any of its points failed, else 0."""
    from serving.study.spec import load_study
    from serving.study.terminal_table import show, to_json

    study = load_study(args.study, args.requests, args.law)
    results = run_shown(study, args.out or RESULTS / args.study.stem, args.cores, args.fresh)
    tell(args.json, results, to_json, show, ROWS)
    print(f"Report: {results.report} (tables beside it)", file=sys.stderr)
    if args.open and not webbrowser.open(results.report.resolve().as_uri()):
        print(f"No browser was found: open {results.report} in one.", file=sys.stderr)
    return 1 if results.failed else 0
