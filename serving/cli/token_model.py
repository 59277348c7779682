"""`foreserve locality`, `speculate` and `train-bundled`: what is measured on the token model, and how it came about."""

import argparse
from pathlib import Path

from serving.scenario.options import HELP, positive
from serving.scenario.scenario import BUNDLED_MODEL


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add them."""
    locality = commands.add_parser("locality", help="what the token model's real routing says of locality")
    locality.add_argument("--token-model", default=str(BUNDLED_MODEL), metavar="DIR", help=HELP["token_model"])
    locality.add_argument("--prompts", type=positive, default=24, metavar="N", help="of each topic (default: 24)")
    locality.add_argument("--tokens", type=positive, default=64, metavar="N", help="of each answer (default: 64)")
    locality.add_argument("--seed", type=int, default=0, metavar="N", help="of prompts and sampling (default: 0)")
    locality.add_argument("--out", type=Path, metavar="DIR", help="write what was found there, with a picture")
    locality.add_argument(
        "--record", type=Path, metavar="FILE", help="write the routes there: for traced residency in virtual time"
    )
    locality.set_defaults(run=run_locality)
    speculate = commands.add_parser("speculate", help="measure how many drafts the token model accepts of its own")
    speculate.add_argument("--token-model", type=Path, default=BUNDLED_MODEL, metavar="DIR", help=HELP["token_model"])
    speculate.add_argument("--quick", action="store_true", help="fewer points and shorter answers: a minute")
    speculate.add_argument("--seed", type=int, default=0, metavar="N", help="of prompts and draws (default: 0)")
    speculate.add_argument("--prompts", type=positive, metavar="N", help="held-out prompts (default: 48; quick: 12)")
    speculate.add_argument("--date", metavar="YYYY-MM-DD", help="a date to write down (default: none)")
    speculate.add_argument("--out", type=Path, metavar="DIR", help="write JSON, PNG files and a report there")
    speculate.set_defaults(run=run_speculate)
    _add_training(commands.add_parser("train-bundled", help="train the bundled token model afresh, on a CPU"))


def _add_training(parser: argparse.ArgumentParser) -> None:
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=positive, metavar="M", help="how long to train (default: 45)")
    length.add_argument("--steps", type=positive, metavar="N", help="how many steps to train instead")
    length.add_argument("--card", action="store_true", help="train nothing: measure the model, and write its card anew")
    parser.add_argument("--out", type=Path, metavar="DIR", help="its folder (default: serving/bundled/foreserve-moe)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the corpus and the weights (default: 0)")
    parser.add_argument("--threads", type=positive, default=2, metavar="N", help="(default: 2)")
    parser.set_defaults(run=run_train_bundled)


def run_locality(args: argparse.Namespace) -> int:
    """`foreserve locality`."""
    from serving.lab.locality import Written, locality

    written = Written(args.out, args.record)
    return locality(args.token_model, args.prompts, args.tokens, args.seed, written)


def run_speculate(args: argparse.Namespace) -> int:
    """`foreserve speculate`."""
    from serving.lab.self_speculation.command import Options, speculate

    prompts = args.prompts or (12 if args.quick else 48)
    new_tokens = 24 if args.quick else 48
    return speculate(Options(args.token_model, args.quick, args.seed, prompts, new_tokens, args.out, args.date))


def run_train_bundled(args: argparse.Namespace) -> int:
    """`foreserve train-bundled`."""
    from serving.lab.training.command import describe_bundled, train_bundled

    if args.card:
        return describe_bundled(args.out)
    return train_bundled(args.out, (args.minutes, args.steps), args.seed, args.threads)
