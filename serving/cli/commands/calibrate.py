"""`foreserve calibrate`: fit the parameters that no paper gives to figures that one does."""

import argparse
from pathlib import Path


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    calibrate = commands.add_parser("calibrate", help="fit what no paper gives to figures of one")
    systems = ("elmoe3d", "stratum")
    calibrate.add_argument("--system", choices=systems, default=systems[0], help=f"whose (default: {systems[0]})")
    calibrate.add_argument("--reference", type=Path, metavar="FILE.csv", help="cells with the columns of Table 3")
    calibrate.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: specs/calibration)")
    calibrate.add_argument("--date", metavar="YYYY-MM-DD", help="the date to write down (default: today)")
    calibrate.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve calibrate`; return its exit code."""
    from serving.usage_error import UsageError

    if args.system == "elmoe3d":
        from serving.reports.calibrate import run

        return run(args.reference, args.out, args.date)
    for option in ("reference", "out", "date"):
        if getattr(args, option) is not None:
            raise UsageError(f"--{option} is for elmoe3d: Stratum's figures are its paper's, and what fits is printed.")
    from serving.reports.calibrate_stratum import run_stratum

    return run_stratum()
