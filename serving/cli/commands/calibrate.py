"""`foreserve calibrate`: fit the parameters that no paper gives to figures that one does."""

import argparse
from pathlib import Path

from serving.cli.commands.validate import SYSTEMS
from serving.usage_error import UsageError


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    calibrate = commands.add_parser("calibrate", help="fit what no paper gives to figures of one")
    calibrate.add_argument("--system", choices=SYSTEMS, default=SYSTEMS[0], help=f"whose (default: {SYSTEMS[0]})")
    calibrate.add_argument("--reference", type=Path, metavar="FILE.csv", help="cells with the columns of Table 3")
    calibrate.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: specs/calibration)")
    calibrate.add_argument("--date", metavar="YYYY-MM-DD", help="the date to write down (default: today)")
    calibrate.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve calibrate`; return its exit code."""
    if args.system == SYSTEMS[0]:
        from serving.reports.calibrate import run

        return run(args.reference, args.out, args.date)
    for option in ("reference", "out", "date"):
        if getattr(args, option) is not None:
            raise UsageError(f"--{option} is for elmoe3d: Stratum's figures are its paper's, and what fits is printed.")
    from serving.reports.calibrate_stratum import run_stratum

    return run_stratum()
