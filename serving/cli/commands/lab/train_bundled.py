"""`foreserve train-bundled`: train the bundled token model afresh."""

import argparse
from pathlib import Path

from serving.cli.arguments.report import add_out
from serving.scenario.options import positive
from serving.usage_error import UsageError

OF_SETTINGS = ("steps", "asked", "kept", "seed", "threads")
OF_TRAINING = (*OF_SETTINGS, "resume", "start_from")
"""Options of a training, by their names in Python; of those that nobody gives the run's settings have the default."""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    parser = commands.add_parser("train-bundled", help="train the bundled token model afresh, on a CPU")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--steps",
        type=positive,
        metavar="N",
        help="steps to train (default: the shipped model's)",
    )
    length.add_argument("--card", action="store_true", help="train nothing: measure the model, and write its card anew")
    parser.add_argument(
        "--resume", action="store_true", help="go on from the checkpoint of a run that was stopped, with its settings"
    )
    add_out(parser, "its folder (default: serving/bundled/foreserve-moe)")
    parser.add_argument(
        "--start-from", type=Path, metavar="FOLDER", help="go on from the weights of this model, and read in its tokens"
    )
    parser.add_argument(
        "--kept",
        type=_share,
        metavar="SHARE",
        help="with --start-from: of what is learnt, how much is kept, the rest of the way being that to the weights it"
        " begins with (default: all)",
    )
    parser.add_argument(
        "--asked",
        type=_share,
        metavar="SHARE",
        help="of the documents, how many are on anything that people ask (default: the shipped model's)",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of the corpus and the weights (default: 0)")
    parser.add_argument("--threads", type=positive, metavar="N", help="processes that share a step (default: 2)")
    parser.set_defaults(run=run)


def _share(text: str) -> float:
    """Return a share from the command line."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed is a share from 0 to below 1")
    return value


def run(args: argparse.Namespace) -> int:
    """Run `foreserve train-bundled`; return its exit code."""
    from serving.lab.training.command import describe_bundled, train_bundled
    from serving.lab.training.settings import Settings

    given = {name: value for name in OF_TRAINING if (value := getattr(args, name)) is not None and value is not False}
    if args.card and given:
        option = next(iter(given)).replace("_", "-")
        raise UsageError(f"--card trains nothing: --{option} goes with a training.")
    if args.card:
        return describe_bundled(args.out)
    if args.kept is not None and args.start_from is None:
        raise UsageError("--kept goes with --start-from: there are no other weights to keep a part of.")
    settings = Settings(**{name: value for name, value in given.items() if name in OF_SETTINGS})
    return train_bundled(args.out, settings, args.resume, args.start_from)
