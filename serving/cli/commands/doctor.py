"""`foreserve doctor`: what this machine can emulate in real time, what it lacks, and why."""

import argparse

from serving.cli.arguments.report import add_json, tell


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    doctor = commands.add_parser("doctor", help="what this machine can emulate in real time, what it lacks, and why")
    add_json(doctor, "what was found")
    doctor.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve doctor`; return 1 if anything is lacking, else 0."""
    from serving.bench.doctor import diagnosis, show, to_json

    found = diagnosis()
    tell(args.json, found, to_json, show)
    return 0 if all(check.ok for check in found.checks) else 1
