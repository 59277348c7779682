"""`foreserve train-topics`: train the topic classifier afresh."""

import argparse

from serving.scenario.options import named_path


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    train = commands.add_parser("train-topics", help="train the topic classifier afresh, on a CPU")
    train.add_argument("--out", type=named_path, metavar="FILE", help="(default: serving/topics/weights.safetensors)")
    train.add_argument("--seed", type=int, default=0, metavar="N", help="of prompts and weights (default: 0)")
    train.add_argument(
        "--hold-out", metavar="NAME", help="train without this file of serving/lab/topic_training/prompts: how good?"
    )
    train.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve train-topics`; return its exit code."""
    from serving.lab.topic_training.command import train_topics

    return train_topics(args.out, args.seed, args.hold_out)
