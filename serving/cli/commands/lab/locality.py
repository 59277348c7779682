"""`foreserve locality`: measure the locality of the token model's real routing."""

import argparse

from serving.cli.arguments.report import add_out, add_token_model
from serving.scenario.options import named_path, natural, positive


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    locality = commands.add_parser("locality", help="what the token model's real routing says of locality")
    add_token_model(locality)
    locality.add_argument("--prompts", type=positive, default=24, metavar="N", help="of each topic (default: 24)")
    locality.add_argument("--tokens", type=positive, default=64, metavar="N", help="of each answer (default: 64)")
    locality.add_argument("--seed", type=natural, default=0, metavar="N", help="of prompts and sampling (default: 0)")
    add_out(locality, "write what was found there, with a picture")
    locality.add_argument(
        "--record", type=named_path, metavar="FILE", help="write the routes there: for traced residency in virtual time"
    )
    locality.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve locality`; return its exit code."""
    from serving.lab.locality import Written, locality

    written = Written(args.out, args.record)
    return locality(args.token_model, args.prompts, args.tokens, args.seed, written)
