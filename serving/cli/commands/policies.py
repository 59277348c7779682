"""`foreserve policies`: compare the scheduler's policies, in virtual time."""

import argparse

from serving.cli.arguments.report import EMULATED, ROWS, add_emulated, add_json, add_law, add_out, tell_written
from serving.scenario.options import natural, positive

REQUESTS = 300
# Enough to tell a lead of some percent from chance, in a few minutes.
SEEDS = (0, 1, 2)


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    policies = commands.add_parser(
        "policies",
        help="what each policy does to the same requests, in virtual time",
        description="What each policy does to the same requests, in virtual time. Policies speculate and place experts "
        "by topic: --hardware must be ELMoE-3D's, --model one with experts. The slow ramp is that of elmoe3d-4gb, too.",
    )
    add_emulated(policies)
    policies.add_argument(
        "--requests", type=positive, default=REQUESTS, metavar="N", help=f"in each run (default: {REQUESTS})"
    )
    policies.add_argument(
        "--seeds",
        type=natural,
        nargs="+",
        default=SEEDS,
        metavar="N",
        help="of arrivals, lengths, topics: means of these, and winners only beyond what they vary; each takes half a "
        f"minute to a minute, and the ramps as long (default: {' '.join(map(str, SEEDS))})",
    )
    add_law(policies)
    add_json(policies)
    add_out(policies, "write a report and a picture there")
    policies.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve policies`; return its exit code."""
    from serving.presentation.json_text import json_text
    from serving.presentation.wide_console import wide_console
    from serving.process.output_folder import make_folder
    from serving.process.progress_line import ProgressLine
    from serving.reports.policy_comparison import compare
    from serving.reports.policy_needs import check_device, check_seeds
    from serving.reports.policy_report import markdown, show, write
    from serving.scenario.scenario import Scenario

    scenario = Scenario(**{name: getattr(args, name) for name in (*EMULATED, "law")})
    check_device(scenario)
    check_seeds(args.seeds)
    if args.out:
        make_folder("--out", args.out)
    with ProgressLine() as line:
        results = compare(scenario, args.requests, args.seeds, line)
    usual = {"system": Scenario().system, "requests": REQUESTS, "law": Scenario().law}
    more = "".join(f" --{name} {getattr(args, name)}" for name, value in usual.items() if getattr(args, name) != value)
    seeds = " ".join(map(str, args.seeds))
    command = f"foreserve policies --hardware {args.hardware} --model {args.model} --seeds {seeds}{more}"
    if args.out:
        tell_written(write(results, command, args.out))
    if args.json:
        print(json_text(results, ROWS))
    elif not args.out:
        console = wide_console()
        if console.is_terminal:
            show(results, command, console)
        else:
            print(markdown(results, command), end="")
    return 0
