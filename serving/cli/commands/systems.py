"""`foreserve systems`: list the hardware that can be emulated."""

import argparse

from serving.cli.arguments.report import add_json, tell


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    systems = commands.add_parser("systems", help="what hardware there is, what runs on it, and how close that is")
    add_json(systems, "the list")
    systems.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve systems`; return its exit code."""
    from serving.reports.systems import show, systems, to_json

    tell(args.json, systems(), to_json, show)
    return 0
