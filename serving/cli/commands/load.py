"""`foreserve load`: send a load to any OpenAI endpoint and measure it."""

import argparse


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    from serving.load.options import add_arguments

    load = commands.add_parser("load", help="send a load to any OpenAI endpoint and measure it")
    add_arguments(load)
    load.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve load`; return its exit code."""
    from serving.load.run import main as load

    return int(load(args))
