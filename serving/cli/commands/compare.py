"""`foreserve compare`: hardware side by side on one workload, in virtual time."""

import argparse
import sys
from typing import TYPE_CHECKING

from serving.cli.arguments.report import ROWS, add_emulated, add_json, add_law, add_out, tell
from serving.cli.study_run import RESULTS, run_shown
from serving.scenario.options import amount, named_path, natural, positive

if TYPE_CHECKING:
    from serving.study.side_by_side.hardware_study import SideBySide


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    compare = commands.add_parser("compare", help="hardware side by side on one workload, in virtual time")
    compare.add_argument("hardware", nargs="+", metavar="HARDWARE", help="a name that `foreserve systems` lists")
    compare.add_argument("--workload", type=named_path, required=True, metavar="FILE.toml", help="what arrives when")
    add_emulated(compare, ["model"])
    add_law(compare)
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
    add_out(compare, "keep it there", RESULTS / "compare")
    add_json(compare, "figures and answer")
    compare.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve compare`; return 1 if any of the hardware failed, else 0."""
    from serving.process.output_folder import make_folder
    from serving.study.side_by_side.hardware_study import hardware_study
    from serving.study.side_by_side.output import show, side_by_side, to_json, write

    study = hardware_study(_asked(args), args.out)
    make_folder("--out", args.out)
    results = run_shown(study, args.out, args.cores, fresh=False)
    found = side_by_side(results)
    tell(args.json, found, to_json, show, ROWS)
    if picture := write(found, args.out):
        print(f"Written: {picture} (tables, report.html and study.toml beside it)", file=sys.stderr)
    return 1 if results.failed else 0


def _asked(args: argparse.Namespace) -> "SideBySide":
    from serving.study.measures.targets import Targets
    from serving.study.side_by_side.hardware_study import SideBySide
    from serving.types import NEVER

    ttft_s, tpot_s = (NEVER if ms is None else ms / 1000 for ms in (args.slo_ttft_ms, args.slo_tpot_ms))
    targets = Targets(ttft_s, tpot_s, own=ttft_s == tpot_s == NEVER)
    asked = (tuple(args.hardware), args.workload, args.model, args.devices, targets, tuple(args.seeds))
    return SideBySide(*asked, args.requests, args.law)
