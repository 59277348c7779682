"""`foreserve bench`: measure how well this machine keeps the emulated pace."""

import argparse

from serving.cli.arguments.report import add_json, add_token_model, tell


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    bench = commands.add_parser("bench", help="measure how well this machine keeps the emulated pace")
    add_json(bench)
    add_token_model(bench)
    bench.add_argument("--quick", action="store_true", help="shorter runs, rougher figures")
    parts = ("probe", "decisions", "metrics", "virtual", "study", "pacing", "live", "news", "cpu_us", "stream")
    bench.add_argument("--only", choices=parts, metavar="PART", help=f"measure one alone: {', '.join(parts)}")
    bench.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve bench`; return 1 if a part has failed, else 0."""
    from serving.bench.command import bench, has_failed, show
    from serving.token_model.config_file import config_file

    config_file(args.token_model)
    results = bench(args.quick, args.token_model, args.only)
    tell(args.json, results, dict, show)
    return 1 if has_failed(results) else 0
