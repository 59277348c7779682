"""`foreserve bench`: measure how well this machine keeps the emulated pace."""

import argparse

from serving.cli.report_arguments import add_json, tell
from serving.scenario.options import HELP
from serving.scenario.scenario import BUNDLED_MODEL


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    bench = commands.add_parser("bench", help="measure how well this machine keeps the emulated pace")
    add_json(bench)
    bench.add_argument("--token-model", default=str(BUNDLED_MODEL), metavar="STR", help=HELP["token_model"])
    bench.add_argument("--quick", action="store_true", help="shorter runs, rougher figures")
    parts = ("probe", "decisions", "metrics", "virtual", "study", "pacing", "live", "cpu_us", "stream")
    bench.add_argument("--only", choices=parts, metavar="PART", help=f"measure one alone: {', '.join(parts)}")
    bench.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve bench`; return its exit code."""
    from serving.bench.command import bench, show

    tell(args.json, bench(args.quick, args.token_model, args.only), dict, show)
    return 0
