"""`foreserve policies`: compare the scheduler's policies, in virtual time."""

import argparse
import json
import sys
from pathlib import Path

from serving.scenario.options import HELP, positive

NAMES = ("system", "hardware", "model")
REQUESTS = 300


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    policies = commands.add_parser("policies", help="what each policy does to the same requests, in virtual time")
    for name, default in zip(NAMES, ("auto", "elmoe3d-8gb", "qwen3-30b-a3b"), strict=True):
        policies.add_argument(f"--{name}", default=default, metavar="NAME", help=f"{HELP[name]} (default: {default})")
    policies.add_argument(
        "--requests", type=positive, default=REQUESTS, metavar="N", help=f"in each run (default: {REQUESTS})"
    )
    policies.add_argument("--seed", type=int, default=0, metavar="N", help="of arrivals, lengths, topics (default: 0)")
    policies.add_argument("--json", action="store_true", help="print the results as JSON on stdout")
    policies.add_argument("--out", type=Path, metavar="DIR", help="write a report and a picture there")
    policies.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve policies`; return its exit code."""
    from serving.process.output_folder import make_folder
    from serving.reports.policy_comparison import compare
    from serving.reports.policy_report import markdown, write
    from serving.scenario.scenario import Scenario

    if args.out:
        make_folder("--out", args.out)
    results = compare(Scenario(**{name: getattr(args, name) for name in NAMES}), args.requests, args.seed)
    command = f"foreserve policies --hardware {args.hardware} --model {args.model} --seed {args.seed}"
    if args.out:
        for path in write(results, command, args.out):
            print(f"Written: {path}", file=sys.stderr)
    if args.json:
        print(json.dumps(results, indent=1))
    elif not args.out:
        print(markdown(results, command), end="")
    return 0
