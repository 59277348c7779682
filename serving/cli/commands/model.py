"""`foreserve model`: the specs of models that the emulator knows."""

import argparse
import sys
from pathlib import Path

from serving.usage_error import UsageError


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its own commands."""
    model = commands.add_parser("model", help="what the emulator knows of models")
    own = model.add_subparsers(dest="model_command", required=True, metavar="COMMAND")
    add = own.add_parser("add", help="print the spec of a model, from its config.json in Hugging Face format")
    add.add_argument("config", type=Path, metavar="CONFIG.json")
    add.add_argument("--name", metavar="NAME", help="what to call it (default: the folder that the file is in)")
    add.add_argument("--save", metavar="NAME", help="keep it under this name in the folder that FORESERVE_SPECS names")
    add.set_defaults(run=run_add)


def run_add(args: argparse.Namespace) -> int:
    """Run `foreserve model add`; return its exit code."""
    from serving.cli.report_arguments import tell_written
    from serving.reports.model_import import imported, saved

    if args.save is not None and args.name is not None:
        raise UsageError(f"--name {args.name} and --save {args.save} both name the model; allowed is one of them.")
    spec, advice = imported(args.config, args.save or args.name)
    if args.save is not None:
        tell_written([saved(args.save, spec)], f"Use it as --model {args.save}")
        return 0
    print(spec, end="")
    print(advice, file=sys.stderr)
    return 0
