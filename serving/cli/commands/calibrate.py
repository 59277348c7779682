"""`foreserve calibrate`: fit the parameters that no paper gives to figures that one does, or to measurements."""

import argparse
from pathlib import Path

from serving.cli.arguments.report import add_law, add_out, tell_written
from serving.cli.commands.validate import SYSTEMS
from serving.scenario.options import named_path
from serving.scenario.scenario import Scenario
from serving.usage_error import UsageError

MEASURED = """instead of a paper's figures, times that you measured on a GPU: FILE.csv with the columns batch, context
and seconds, a step a line (and new_tokens, of prompts), or the JSON of `vllm bench serve`, or that of `vllm bench
latency` as 'FILE.json: batch=8, input=1024, output=128'. Times of several models on the same GPU, each with its own
as in 'FILE.csv: model=NAME', tell what a pass takes by itself from what its layers do"""
OF_PAPERS, OF_MEASUREMENTS = ("system", "law", "reference"), ("hardware", "model")


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    calibrate = commands.add_parser("calibrate", help="fit what no paper gives to figures of one, or to measurements")
    calibrate.add_argument("--system", choices=SYSTEMS, help=f"whose paper (default: {SYSTEMS[0]})")
    calibrate.add_argument("--reference", type=named_path, metavar="FILE.csv", help="cells with the columns of Table 3")
    add_law(calibrate, default=None)
    calibrate.add_argument("--measured", nargs="+", action="extend", metavar="FILE", help=MEASURED)
    calibrate.add_argument("--hardware", metavar="NAME", help="the GPU that was measured, whose data sheet is kept")
    model = Scenario().model
    calibrate.add_argument(
        "--model", metavar="NAME", help=f"the model that was measured on it, in files that name none (default: {model})"
    )
    add_out(
        calibrate,
        "where to write; of a paper into a folder LAW there (default: specs/calibration; of measurements, here)",
    )
    calibrate.add_argument("--date", metavar="YYYY-MM-DD", help="the date to write down (default: today)")
    calibrate.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve calibrate`; return its exit code."""
    if args.measured:
        return _measured(args)
    _refuse(args, OF_MEASUREMENTS, "for --measured: a paper's figures are of its own hardware and models.")
    from rich.console import Console

    progress = Console(stderr=True)
    if args.system in (None, SYSTEMS[0]):
        from device_model.specs.law import Law
        from serving.reports.calibrate import run

        run(Law(args.law or Law.REALISABLE), args.reference, args.out, args.date, progress)
        return 0
    options = ("law", "reference", "out", "date")
    _refuse(args, options, "for elmoe3d: Stratum's figures are its paper's, and what fits is printed.")
    from serving.presentation.wide_console import wide_console
    from serving.reports.calibrate_stratum import run_stratum

    run_stratum(wide_console(), progress)
    return 0


def _measured(args: argparse.Namespace) -> int:
    from serving.presentation.wide_console import wide_console
    from serving.reports.calibrate import checked_date
    from serving.reports.calibrate_gpu import calibrated, show, write

    _refuse(args, OF_PAPERS, "for a paper, and --measured has none.")
    if args.hardware is None:
        raise UsageError("--measured needs --hardware; allowed is a GPU that `foreserve systems` lists, or its file.")
    found = calibrated(args.measured, args.hardware, args.model, checked_date(args.date))
    show(found, wide_console())
    tell_written([write(found, args.hardware, args.out or Path())])
    return 0


def _refuse(args: argparse.Namespace, options: tuple[str, ...], why: str) -> None:
    for option in options:
        if getattr(args, option) is not None:
            raise UsageError(f"--{option} is {why}")
