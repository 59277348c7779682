"""`foreserve calibrate`: fit the parameters that no paper gives to the cells of a table."""

import argparse
from pathlib import Path


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    calibrate = commands.add_parser("calibrate", help="fit what no paper gives to the cells of a table")
    calibrate.add_argument("--reference", type=Path, metavar="FILE.csv", help="cells with the columns of Table 3")
    calibrate.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: specs/calibration)")
    calibrate.add_argument("--date", metavar="YYYY-MM-DD", help="the date to write down (default: today)")
    calibrate.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve calibrate`; return its exit code."""
    from serving.reports.calibrate import run

    return run(args.reference, args.out, args.date)
