"""`foreserve bench`: measure how well this machine keeps the emulated pace."""

import argparse
import json

from serving.scenario.options import HELP
from serving.scenario.scenario import BUNDLED_MODEL


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    bench = commands.add_parser("bench", help="measure how well this machine keeps the emulated pace")
    bench.add_argument("--json", action="store_true", help="print the results as JSON on stdout")
    bench.add_argument("--token-model", default=str(BUNDLED_MODEL), metavar="STR", help=HELP["token_model"])
    bench.add_argument("--quick", action="store_true", help="shorter runs, rougher figures")
    parts = ("probe", "decisions", "metrics", "virtual", "study", "pacing", "live", "cpu_us", "stream")
    bench.add_argument("--only", choices=parts, metavar="PART", help=f"measure one alone: {', '.join(parts)}")
    bench.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve bench`; return its exit code."""
    from serving.bench.command import bench, print_table

    results = bench(args.quick, args.token_model, args.only)
    if args.json:
        print(json.dumps(results, indent=2))
    else:
        print_table(results)
    return 0
