"""`foreserve explain`: print which operator of a step runs where, why, and its cost."""

import argparse

from serving.cli.arguments.report import EMULATED, add_emulated, add_law
from serving.policies.step_options import MEASURED, PUBLISHED
from serving.scenario.fleet import NO_DRAFT
from serving.scenario.options import positive


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
    explain.add_argument("--width", type=positive, metavar="N", help="tokens of a draft pass (default: as calibrated)")
    explain.add_argument("--verify", type=positive, metavar="N", help="verified tokens (default: as calibrated)")
    explain.add_argument(
        "--acceptance",
        choices=[PUBLISHED, MEASURED],
        default=PUBLISHED,
        help="rates of accepted drafts: the paper's, or those of the bundled token model (default: published)",
    )
    add_law(explain)
    explain.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve explain`; return its exit code."""
    from serving.cli.named_options import naming_options
    from serving.presentation.wide_console import wide_console
    from serving.reports.explain import show
    from serving.reports.explanation import Drafts, explained
    from serving.scenario.scenario import Scenario

    told = {name: getattr(args, name) for name in (*EMULATED, "draft", "acceptance", "law", "width", "verify")}
    # What `serve` refuses means nothing here either.
    given = {name: value for name, value in told.items() if value is not None} | {"depth": str(args.depth or "")}
    with naming_options(given):
        scenario = Scenario(**given)
    tree = (args.depth, args.width, args.verify)
    drafts = Drafts(scenario.members[0].draft or None, tree, args.acceptance)
    names = (args.system, args.hardware, args.model, args.law)
    show(explained(names, drafts, args.batch, args.context), wide_console())
    return 0
