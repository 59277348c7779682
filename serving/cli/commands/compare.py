"""`foreserve compare`: hardware side by side on one workload, in virtual time."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from serving.cli.study_run import RESULTS, run_shown
from serving.scenario.options import HELP, amount, natural, positive

if TYPE_CHECKING:
    from serving.study.results import Results
    from serving.study.side_by_side.hardware_study import SideBySide

MODEL = "qwen3-30b-a3b"


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    compare = commands.add_parser("compare", help="hardware side by side on one workload, in virtual time")
    compare.add_argument("hardware", nargs="+", metavar="HARDWARE", help="a name that `foreserve systems` lists")
    compare.add_argument("--workload", type=Path, required=True, metavar="FILE.toml", help="what arrives when")
    compare.add_argument("--model", default=MODEL, metavar="NAME", help=f"{HELP['model']} (default: {MODEL})")
    compare.add_argument("--devices", type=positive, default=1, metavar="N", help="of each hardware (default: 1)")
    for name, what in (("ttft", "to the first token"), ("tpot", "per token after it")):
        option = f"--slo-{name}-ms"
        compare.add_argument(
            option, type=amount("milliseconds"), metavar="MS", help=f"most time {what} that is good enough"
        )
    compare.add_argument(
        "--seeds", type=natural, nargs="+", default=(), metavar="N", help="with each of these (its own)"
    )
    compare.add_argument("--requests", type=positive, metavar="N", help="at most so many in each run")
    compare.add_argument("--cores", type=positive, metavar="N", help="use so many (default: all; or RAY_ADDRESS's)")
    compare.add_argument(
        "--out", type=Path, default=RESULTS / "compare", metavar="DIR", help="keep it there (%(default)s)"
    )
    compare.add_argument("--json", action="store_true", help="print figures and answer as JSON on stdout")
    compare.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve compare`; return 1 if any of the hardware failed, else 0."""
    from serving.process.output_folder import make_folder
    from serving.study.side_by_side.hardware_study import hardware_study

    study = hardware_study(_asked(args), args.out)
    make_folder("--out", args.out)
    results = run_shown(study, args.out, args.cores, fresh=False)
    _say(results, args.json)
    return 1 if results.failed else 0


def _asked(args: argparse.Namespace) -> "SideBySide":
    from serving.study.side_by_side.hardware_study import SideBySide
    from serving.study.targets import Targets
    from serving.types import NEVER

    ttft_s, tpot_s = (NEVER if ms is None else ms / 1000 for ms in (args.slo_ttft_ms, args.slo_tpot_ms))
    targets = Targets(ttft_s, tpot_s, own=ttft_s == tpot_s == NEVER)
    return SideBySide(
        tuple(args.hardware), args.workload, args.model, args.devices, targets, tuple(args.seeds), args.requests
    )


def _say(results: "Results", as_json: bool) -> None:
    """Write tables and picture into the study's folder, and print the answer."""
    from serving.presentation.csv_rows import write_csv
    from serving.presentation.wide_console import wide_console
    from serving.study.side_by_side.comparison import compared
    from serving.study.side_by_side.picture import write_picture
    from serving.study.side_by_side.shown import energy_table, figures_table
    from serving.study.side_by_side.verdict import sentences

    found, asked = compared(results), results.study.has_targets
    answer = list(sentences(found, asked))
    if as_json:
        print(
            json.dumps(
                {"title": results.study.title, "answer": answer, "hardware": [each.told for each in found]}, indent=1
            )
        )
    if not found:
        return
    write_csv([each.csv_row for each in found], results.folder / "comparison.csv")
    [picture] = write_picture(found, results.study.title, results.folder)
    if not as_json:
        console = wide_console()
        console.print("\n".join(answer), markup=False)
        for table in (figures_table(found, asked), energy_table(found)):
            console.print()
            console.print(table)
    print(f"Written: {picture} (tables, report.html and study.toml beside it)", file=sys.stderr)
