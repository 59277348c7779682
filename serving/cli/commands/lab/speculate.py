"""`foreserve speculate`: measure how many drafts the token model accepts of its own."""

import argparse
from datetime import date
from pathlib import Path

from serving.cli.arguments.report import add_out, add_token_model
from serving.scenario.options import positive
from serving.usage_error import UsageError


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    speculate = commands.add_parser("speculate", help="measure how many drafts the token model accepts of its own")
    add_token_model(speculate)
    speculate.add_argument("--quick", action="store_true", help="fewer points and shorter answers: a minute")
    speculate.add_argument("--seed", type=int, default=0, metavar="N", help="of prompts and draws (default: 0)")
    speculate.add_argument("--prompts", type=positive, metavar="N", help="held-out prompts (default: 48; quick: 12)")
    speculate.add_argument("--date", type=_date, metavar="YYYY-MM-DD", help="a date to write down (default: none)")
    add_out(speculate, "write JSON, PNG files and a report there")
    speculate.set_defaults(run=run)


def _date(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed is a day, as 2026-11-26") from error


def run(args: argparse.Namespace) -> int:
    """Run `foreserve speculate`; return its exit code."""
    from serving.lab.self_speculation.command import Options, speculate

    folder = Path(args.token_model)
    if not folder.is_dir():
        raise UsageError(f"--token-model is {folder}: allowed is a folder with a checkpoint in Hugging Face format.")
    prompts = args.prompts or (12 if args.quick else 48)
    new_tokens = 24 if args.quick else 48
    return speculate(Options(folder, args.quick, args.seed, prompts, new_tokens, args.out, args.date))
