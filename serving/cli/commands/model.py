"""`foreserve model`: the specs of models that the emulator knows."""

import argparse
import sys

from serving.scenario.options import named_path
from serving.usage_error import UsageError


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its own commands."""
    model = commands.add_parser("model", help="what the emulator knows of models")
    own = model.add_subparsers(dest="model_command", required=True, metavar="COMMAND")
    add = own.add_parser("add", help="print the spec of a model, from its config.json in Hugging Face format")
    add.add_argument("config", type=named_path, metavar="CONFIG.json")
    add.add_argument("--name", metavar="NAME", help="what to call it (default: the folder that the file is in)")
    add.add_argument("--save", metavar="NAME", help="keep it under this name in the folder that FORESERVE_SPECS names")
    add.add_argument("--replace", action="store_true", help="with --save: also if there is one of yours by that name")
    add.set_defaults(run=run_add)


def run_add(args: argparse.Namespace) -> int:
    """Run `foreserve model add`; return its exit code."""
    from serving.cli.arguments.report import tell_written
    from serving.reports.model_import import check_spelling, imported, place_of

    if args.save is not None and args.name is not None:
        raise UsageError(f"--name {args.name} and --save {args.save} both name the model; allowed is one of them.")
    if args.replace and args.save is None:
        raise UsageError("--replace is given without --save; allowed is with it, as nothing is kept without.")
    if args.name is not None:
        check_spelling(args.name, "--name")
    if args.save is None:
        found = imported(args.config, args.name)
        print(found.spec, end="")
        print(found.advice, file=sys.stderr)
        return 0
    path = place_of(args.save, args.replace)
    found = imported(args.config, args.save)
    path.write_text(found.spec, encoding="utf-8")
    tell_written([path], f"Use it as --model {args.save}")
    print(found.assumed, end="\n" if found.assumed else "", file=sys.stderr)
    return 0
