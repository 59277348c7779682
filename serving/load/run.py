"""A load run, start to end; `foreserve load`, `demo` and `bench` all come through `run_load`."""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import uvloop
from rich.console import Console

from serving.load import emulator
from serving.load.client import Transport
from serving.load.drive import Drive
from serving.load.options import LoadError, LoadOptions, OptionError, add_arguments, options_from
from serving.load.planned import Planned
from serving.load.progress import Meter, OnProgress
from serving.load.report import Report
from serving.load.summary import by_class, goodput, summarise
from serving.load.transports import connect
from serving.process.process_priority import settle
from serving.process.progress_line import ProgressLine

__all__ = ["add_arguments", "main", "options_from", "run_load"]

PROGRESS_EVERY_S = 0.25
INTERRUPTED = 130  # The exit code of a program that Ctrl-C ended.

T = TypeVar("T")


class Interrupted(Exception):
    """A run that was stopped before it sent anything."""


async def run_load(
    options: LoadOptions, on_progress: OnProgress | None = None, stop: asyncio.Event | None = None
) -> Report:
    """Run the load and return its report; setting `stop` cancels the rest and reports the requests that completed.

    Raise LoadError if the endpoint cannot be used at all, OptionError if an option does not fit it, Interrupted if the
    run was stopped before it sent anything.
    """
    stop = stop or asyncio.Event()
    planned = Planned.of(options)
    transport = connect(options)
    try:
        if (found := await _unless(stop, _look(options, transport))) is None:
            raise Interrupted
        model, before = found
        drive = Drive(transport, model, before.speed if before else 1.0, options.timeout_s)
        ticker = asyncio.create_task(_tick(drive, on_progress)) if on_progress else None
        try:
            await _unless(stop, drive.run(planned, options.max_concurrency, planned.after))
        finally:
            if ticker:
                ticker.cancel()
    finally:
        await transport.close()
    report = await _report(options, drive, before, stop.is_set())
    return replace(report, broken=str(planned.error)) if planned.error else report


def main(args: argparse.Namespace) -> int:
    """Run `foreserve load`; return 0 if any request completed, 1 if none did, 130 after Ctrl-C. Raise OptionError."""
    try:
        options = options_from(args)
        settle()
        with ProgressLine() as line:
            report = uvloop.run(_interruptible(options, line))
    except LoadError as error:
        print(f"foreserve load: {error}", file=sys.stderr)
        return 1
    except (Interrupted, KeyboardInterrupt):
        return INTERRUPTED
    failure = _failure(report)
    if args.json:
        print(json.dumps(report.to_json(), indent=2))
    elif not (failure and _unreachable(report)):
        report.print(Console())
    if failure:
        print(f"foreserve load: {failure}", file=sys.stderr)
    return INTERRUPTED if report.interrupted else 1 if failure else 0


async def _interruptible(options: LoadOptions, on_progress: OnProgress) -> Report:
    """Run the load; a first Ctrl-C stops it and still reports, a second one ends the program."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def interrupt() -> None:
        stop.set()
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    return await run_load(options, on_progress, stop)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`; None if `stop` was set before its end, which cancels it."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        working.cancel()  # Nothing happens if it has ended.
        await asyncio.wait((working,))
    return None if working.cancelled() else working.result()


async def _look(options: LoadOptions, transport: Transport) -> tuple[str, emulator.Snapshot | None]:
    """Return the model to ask for, and the emulator's figures before the run; None if it is not our emulator."""
    model = options.model or _first(await transport.models(), options)
    before = await emulator.snapshot(_metrics_url(options), options.api_key, options.trust)
    if before is None and options.metrics_url:
        raise OptionError(f"--metrics-url must be an emulator's /metrics, not {options.metrics_url!r}.")
    return model, before


def _first(models: Sequence[str], options: LoadOptions) -> str:
    if models:
        return models[0]
    raise LoadError(f"{options.url} lists no models; name one with --model.")


def _metrics_url(options: LoadOptions) -> str:
    return options.metrics_url or options.address.metrics_url


async def _tick(drive: Drive, on_progress: OnProgress) -> None:
    meter = Meter(drive)
    while True:
        await asyncio.sleep(PROGRESS_EVERY_S)
        on_progress(meter.read())


async def _report(options: LoadOptions, drive: Drive, before: emulator.Snapshot | None, interrupted: bool) -> Report:
    fidelity = None
    if before is not None:
        after = await emulator.settled(_metrics_url(options), options.api_key, options.trust)
        fidelity = emulator.difference(before, after)
    summary = summarise(drive.traces, drive.speed)
    verdict = goodput(drive.traces, options.slos, drive.speed, summary.duration_s)
    classes = by_class(drive.traces, drive.speed)
    return Report(
        options.url, drive.model, summary, verdict, options.slos, fidelity, interrupted, classes, traces=drive.traces
    )


def _failure(report: Report) -> str | None:
    if report.broken:
        return f"The workload broke off: {report.broken}"
    if report.summary.completed or report.interrupted:
        return None
    if _unreachable(report):
        return f"Nothing answers at {report.url}: {report.summary.errors[0].message}."
    return "No request completed."


def _unreachable(report: Report) -> bool:
    errors = report.summary.errors
    return bool(errors) and all(error.status in ("connection", "UNAVAILABLE") for error in errors)
