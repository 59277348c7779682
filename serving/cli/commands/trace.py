"""`foreserve trace`: turn a step log into a trace for a viewer."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from device_model.specs.hardware_file import load_hardware
from serving.scenario.options import named_path
from serving.telemetry.chrome_trace import chrome
from serving.telemetry.chrome_trace.events import UNNAMED, events_of
from serving.telemetry.step_log import StepLogError, steps_of
from serving.types import StepRecord


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    trace = commands.add_parser("trace", help="make a step log a trace that ui.perfetto.dev and chrome://tracing show")
    trace.add_argument(
        "step_log", type=named_path, metavar="STEP_LOG", help="what `foreserve serve --step-log` has written"
    )
    trace.add_argument(
        "--out",
        type=named_path,
        metavar="FILE",
        help="where to, compressed if it ends in .gz (default: beside the log, as .trace.json.gz)",
    )
    trace.add_argument("--hardware", metavar="NAME", help="whose names memory tiers have (default: fast and slow)")
    trace.set_defaults(run=run)


class StepCounter:
    """An iterator of steps that counts them, and notes their devices."""

    def __init__(self, steps: Iterator[StepRecord]) -> None:
        self._steps = steps
        self.count = 0
        self.devices: set[int] = set()

    def __iter__(self) -> Iterator[StepRecord]:
        for step in self._steps:
            self.count += 1
            self.devices.add(step.device)
            yield step


def run(args: argparse.Namespace) -> int:
    """Write the trace; return the exit code. Raise StepLogError if there are no steps, or `--out` cannot be written;
    UnknownName for unknown hardware."""
    tiers = load_hardware(args.hardware).tiers if args.hardware else UNNAMED
    if args.step_log.is_dir():
        raise StepLogError(f"{args.step_log} is a folder: name the file of a step log (`serve --step-log`).")
    out: Path = args.out or args.step_log.with_suffix(".trace.json.gz")
    seen = StepCounter(steps_of(args.step_log))
    try:
        if out.resolve() == args.step_log.resolve():
            raise StepLogError(f"{out} is the step log itself: choose another --out.")
        steps = iter(seen)
        first = next(steps, None)
        if first is None:
            raise StepLogError(f"{args.step_log} has no steps in it.")
        chrome.write(out, events_of(_again(first, steps), tiers))
    except OSError as error:
        raise StepLogError(f"--out {out} cannot be written: {error.strerror or error}.") from error
    devices = ("devices " if len(seen.devices) > 1 else "device ") + ", ".join(map(str, sorted(seen.devices)))
    print(f"{seen.count:,} steps of {devices}: open {out} in https://ui.perfetto.dev")
    return 0


def _again(first: StepRecord, rest: Iterator[StepRecord]) -> Iterator[StepRecord]:
    yield first
    yield from rest
