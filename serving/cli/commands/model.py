"""`foreserve model`: the specs of models that the emulator knows."""

import argparse
import sys
from pathlib import Path


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its own commands."""
    model = commands.add_parser("model", help="what the emulator knows of models")
    own = model.add_subparsers(dest="model_command", required=True, metavar="COMMAND")
    add = own.add_parser("add", help="print the spec of a model, from its config.json in Hugging Face format")
    add.add_argument("config", type=Path, metavar="CONFIG.json")
    add.add_argument("--name", metavar="NAME", help="what to call it (default: the folder that the file is in)")
    add.set_defaults(run=run_add)


def run_add(args: argparse.Namespace) -> int:
    """Run `foreserve model add`; return its exit code."""
    from serving.reports.model_import import imported

    spec, advice = imported(args.config, args.name)
    print(spec, end="")
    print(advice, file=sys.stderr)
    return 0
