"""`foreserve classify`: find the topics of prompts, and compare them with the right ones."""

import argparse
from pathlib import Path


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    classify = commands.add_parser("classify", help="find the topics of prompts, and compare them with what is right")
    classify.add_argument("file", type=Path, metavar="FILE.tsv", help="lines of a topic, a tab and a prompt (-: stdin)")
    classify.add_argument("--json", action="store_true", help="print the results as JSON on stdout")
    classify.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve classify`; return its exit code."""
    from serving.reports.classification import classify

    return classify(args.file, args.json)
