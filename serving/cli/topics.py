"""`foreserve classify` and `train-topics`: which topics prompts have, and how the classifier came to know."""

import argparse
from pathlib import Path


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add them."""
    classify = commands.add_parser("classify", help="find the topics of prompts, and compare them with what is right")
    classify.add_argument("file", type=Path, metavar="FILE.tsv", help="lines of a topic, a tab and a prompt (-: stdin)")
    classify.add_argument("--json", action="store_true", help="print the results as JSON on stdout")
    classify.set_defaults(run=run_classify)
    train = commands.add_parser("train-topics", help="train the topic classifier afresh, on a CPU")
    train.add_argument("--out", type=Path, metavar="FILE", help="(default: serving/topics/weights.safetensors)")
    train.add_argument("--seed", type=int, default=0, metavar="N", help="of prompts and weights (default: 0)")
    train.add_argument(
        "--hold-out", metavar="NAME", help="train without this file of serving/lab/topic_training/prompts: how good?"
    )
    train.set_defaults(run=run_train_topics)


def run_classify(args: argparse.Namespace) -> int:
    """`foreserve classify`."""
    from serving.cli.classify import classify

    return classify(args.file, args.json)


def run_train_topics(args: argparse.Namespace) -> int:
    """`foreserve train-topics`."""
    from serving.lab.topic_training.command import train_topics

    return train_topics(args.out, args.seed, args.hold_out)
