"""`foreserve explain`: print which operator of a step runs where, why, and its cost."""

import argparse

from serving.cli.report_arguments import add_emulated, add_law
from serving.scenario.fleet import NO_DRAFT, Member, resolved
from serving.scenario.options import HELP, KEYS, positive


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    explain = commands.add_parser("explain", help="which operator of a step runs where, why, and what it costs")
    add_emulated(explain)
    explain.add_argument(
        "--draft",
        default=NO_DRAFT,
        metavar="NAME",
        help="draft scheme, a file in device_model/drafts; auto: what the system has in its paper (default: none)",
    )
    explain.add_argument("--batch", type=positive, default=1, metavar="N", help="sequences that decode (default: 1)")
    explain.add_argument("--context", type=positive, default=1024, metavar="N", help="tokens of each (default: 1024)")
    explain.add_argument("--depth", type=positive, metavar="N", help="draft depth (default: the calibrated one)")
    explain.add_argument(
        "--acceptance", choices=KEYS["acceptance"].choices, default="published", help=f"{HELP['acceptance']}"
    )
    add_law(explain)
    explain.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve explain`; return its exit code."""
    from rich.console import Console

    from serving.presentation.wide_console import UNCUT
    from serving.reports.explain import show
    from serving.reports.explanation import Drafts, explained

    device = resolved(Member(args.system, args.hardware, args.draft), traced=False, what="The device")
    drafts = Drafts(device.draft or None, args.depth, args.acceptance)
    names = (args.system, args.hardware, args.model, args.law)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = UNCUT
    show(explained(names, drafts, args.batch, args.context), console)
    return 0
