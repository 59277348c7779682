"""`foreserve calibrate`: fit the parameters that no paper gives to figures that one does."""

import argparse
from pathlib import Path

from serving.cli.commands.validate import SYSTEMS
from serving.cli.report_arguments import add_law, add_out
from serving.usage_error import UsageError


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    calibrate = commands.add_parser("calibrate", help="fit what no paper gives to figures of one")
    calibrate.add_argument("--system", choices=SYSTEMS, default=SYSTEMS[0], help=f"whose (default: {SYSTEMS[0]})")
    calibrate.add_argument("--reference", type=Path, metavar="FILE.csv", help="cells with the columns of Table 3")
    add_law(calibrate, default=None)
    add_out(calibrate, "where to write, in a folder of the law's name (default: specs/calibration)")
    calibrate.add_argument("--date", metavar="YYYY-MM-DD", help="the date to write down (default: today)")
    calibrate.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve calibrate`; return its exit code."""
    from rich.console import Console

    from serving.presentation.wide_console import wide_console

    progress = Console(stderr=True)
    if args.system == SYSTEMS[0]:
        from device_model.specs.law import Law
        from serving.reports.calibrate import run

        run(Law(args.law or Law.REALISABLE), args.reference, args.out, args.date, progress)
        return 0
    for option in ("law", "reference", "out", "date"):
        if getattr(args, option) is not None:
            raise UsageError(f"--{option} is for elmoe3d: Stratum's figures are its paper's, and what fits is printed.")
    from serving.reports.calibrate_stratum import run_stratum

    run_stratum(wide_console(), progress)
    return 0
