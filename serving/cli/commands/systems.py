"""`foreserve systems`: list the hardware that can be emulated."""

import argparse


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    systems = commands.add_parser("systems", help="what hardware there is, what runs on it, and how close that is")
    systems.add_argument("--json", action="store_true", help="print the list as JSON on stdout")
    systems.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve systems`; return its exit code."""
    from serving.reports.systems import systems

    return systems(args.json)
