"""`foreserve validate`: compare the device model's predictions with the papers' figures."""

import argparse
from pathlib import Path

# Files of device_model/validation/papers, which are read when they are needed; a test compares.
SYSTEMS = ("elmoe3d", "stratum")


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    validate = commands.add_parser("validate", help="what the device model predicts, beside what the papers print")
    validate.add_argument("--system", choices=SYSTEMS, default=SYSTEMS[0], help=f"whose paper (default: {SYSTEMS[0]})")
    validate.add_argument("--reference", type=Path, metavar="FILE.csv", help="cells with the columns of its Table 3")
    validate.add_argument("--json", action="store_true", help="print the results as JSON on stdout")
    validate.add_argument("--plots", type=Path, metavar="DIR", help="draw them there too, as PNG files")
    validate.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve validate`; return its exit code."""
    from serving.reports.validate import validate

    return validate(args.system, args.reference, args.json, args.plots)
