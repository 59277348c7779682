"""`foreserve classify`: find the topics of prompts, and compare them with the right ones."""

import argparse

from serving.cli.arguments.report import add_json, tell
from serving.scenario.options import named_path


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    classify = commands.add_parser("classify", help="find the topics of prompts, and compare them with what is right")
    classify.add_argument(
        "file", type=named_path, metavar="FILE.tsv", help="lines of a topic, a tab and a prompt (-: stdin)"
    )
    add_json(classify)
    classify.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve classify`; return its exit code."""
    from serving.reports.classification import classify, show, to_json

    tell(args.json, classify(args.file), to_json, show)
    return 0
