"""`foreserve speculate`: measure how many drafts the token model accepts of its own."""

import argparse
from pathlib import Path

from serving.cli.report_arguments import add_out
from serving.scenario.options import HELP, positive
from serving.scenario.scenario import BUNDLED_MODEL


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    speculate = commands.add_parser("speculate", help="measure how many drafts the token model accepts of its own")
    speculate.add_argument("--token-model", type=Path, default=BUNDLED_MODEL, metavar="DIR", help=HELP["token_model"])
    speculate.add_argument("--quick", action="store_true", help="fewer points and shorter answers: a minute")
    speculate.add_argument("--seed", type=int, default=0, metavar="N", help="of prompts and draws (default: 0)")
    speculate.add_argument("--prompts", type=positive, metavar="N", help="held-out prompts (default: 48; quick: 12)")
    speculate.add_argument("--date", metavar="YYYY-MM-DD", help="a date to write down (default: none)")
    add_out(speculate, "write JSON, PNG files and a report there")
    speculate.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve speculate`; return its exit code."""
    from serving.lab.self_speculation.command import Options, speculate

    prompts = args.prompts or (12 if args.quick else 48)
    new_tokens = 24 if args.quick else 48
    return speculate(Options(args.token_model, args.quick, args.seed, prompts, new_tokens, args.out, args.date))
