"""`foreserve demo`: the main job from end to end, bounded."""

import argparse

from serving.cli.arguments.scenario import add_scenario, scenario_of


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    demo = commands.add_parser("demo", help="serve, send a bounded load, print what came of it, and end")
    add_scenario(demo)
    demo.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve demo`; return its exit code."""
    from serving.cli.demonstration import demo

    return demo(scenario_of(args))
