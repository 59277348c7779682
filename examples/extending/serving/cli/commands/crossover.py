"""`foreserve crossover`: how decode steps of two devices compare as contexts grow."""

import argparse

from serving.scenario.options import positive


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    crossover = commands.add_parser("crossover", help="how decode steps of two devices compare as contexts grow")
    crossover.add_argument("first", metavar="HARDWARE")
    crossover.add_argument("second", metavar="HARDWARE")
    crossover.add_argument("--batch", type=positive, default=1, metavar="N", help="sequences that decode (default: 1)")
    crossover.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """`foreserve crossover`."""
    from device_model.load import load_device
    from device_model.step import StepPlan

    devices = [load_device("elmoe3d", name, "qwen3-30b-a3b") for name in (args.first, args.second)]
    for context in (1024, 4096, 16384):
        plan = StepPlan.of(*[(1, context)] * args.batch)
        first, second = (device.probe(plan).latency_s[0] for device in devices)
        print(f"{context} tokens: {args.first} takes {first / second:.2f} times as long as {args.second}")
    return 0
