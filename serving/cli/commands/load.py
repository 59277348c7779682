"""`foreserve load`: send a load to any OpenAI endpoint and measure it."""

import argparse

from serving.cli.arguments.report import add_json, tell


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    from serving.cli.arguments.load import add_load

    load = commands.add_parser("load", help="send a load to any OpenAI endpoint and measure it")
    add_load(load)
    add_json(load, "the report")
    load.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve load`; return 0. Raise CommandFailed if no request completed, KeyboardInterrupt after Ctrl-C, both
    with the report printed."""
    from serving.cli.arguments.load import options_from
    from serving.load.report import Report
    from serving.load.run import run_interruptible
    from serving.process.progress_line import ProgressLine
    from serving.usage_error import CommandFailed

    options = options_from(args)
    with ProgressLine() as line:
        report = run_interruptible(options, line)
    if args.json or not (report.failure and report.unreachable):
        tell(args.json, report, Report.to_json, Report.show)
    if report.failure:
        raise CommandFailed(report.failure)
    if report.interrupted:
        raise KeyboardInterrupt
    return 0
