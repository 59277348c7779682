"""A load run, start to end; `foreserve load`, `demo` and `bench` all come through `run_load`."""

import asyncio
import signal
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import uvloop

from serving.load import emulator
from serving.load.client import Transport
from serving.load.drive import Drive
from serving.load.http import HttpTransport, metrics_at
from serving.load.options import LoadError, LoadOptions, OptionError
from serving.load.plan import LoadPlan
from serving.load.progress import Meter, OnProgress
from serving.load.report import Report
from serving.load.summary import by_class, goodput, summarise
from serving.process.process_priority import settle

PROGRESS_EVERY_S = 0.25

T = TypeVar("T")


class LoadInterrupted(Exception):
    """A run that was stopped before it sent anything."""


async def run_load(
    options: LoadOptions, on_progress: OnProgress | None = None, stop: asyncio.Event | None = None
) -> Report:
    """Run the load and return its report; setting `stop` cancels the rest and reports the requests that completed.

    Raise LoadError if the endpoint cannot be used at all, OptionError if an option does not fit it, LoadInterrupted if
    the run was stopped before it sent anything.
    """
    stop = stop or asyncio.Event()
    plan = LoadPlan.of(options)
    transport = connect(options)
    try:
        readings = emulator.Readings(_reader(options, transport))
        if (found := await _unless(stop, _look(options, transport, readings))) is None:
            raise LoadInterrupted
        model, before = found
        drive = Drive(transport, model, before.speed if before else 1.0, options.timeout_s)
        beside = [_tick(drive, on_progress)] if on_progress else []
        tasks = [asyncio.create_task(each) for each in [*beside, *([readings.go_on()] if before else [])]]
        try:
            await _unless(stop, drive.run(plan, options.max_concurrency, plan.after))
        finally:
            for task in tasks:
                task.cancel()
        report = await _report(options, drive, before, readings, stop.is_set())
    finally:
        await transport.close()
    return replace(report, broken=str(plan.error)) if plan.error else report


def run_interruptible(options: LoadOptions, on_progress: OnProgress) -> Report:
    """Run the load in this thread; a first Ctrl-C or SIGTERM stops it and still reports, a second ends the program.

    Raise as `run_load`, but KeyboardInterrupt for a run that was stopped before it sent anything.
    """
    settle()
    try:
        report: Report = uvloop.run(_interruptible(options, on_progress))
        return report
    except LoadInterrupted as interrupted:
        raise KeyboardInterrupt from interrupted


def connect(options: LoadOptions) -> Transport:
    """Return the transport for the options' address: HTTP or gRPC."""
    if options.address.is_grpc:
        from serving.load.grpc import GrpcTransport  # Only here, so that an HTTP run does not load gRPC.

        return GrpcTransport(options)
    return HttpTransport(options)


async def _interruptible(options: LoadOptions, on_progress: OnProgress) -> Report:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    before = signal.getsignal(signal.SIGTERM)

    def interrupt() -> None:
        stop.set()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
        signal.signal(signal.SIGTERM, before)

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, interrupt)
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


async def _look(
    options: LoadOptions, transport: Transport, readings: emulator.Readings
) -> tuple[str, emulator.Snapshot | None]:
    """Return the model to ask for, and the emulator's figures before the run; None if it is not our emulator."""
    model = options.model or _first(await transport.models(), options)
    before = await emulator.snapshot(readings.read)
    if before is None and options.metrics_url:
        raise OptionError(f"--metrics-url must be an emulator's /metrics, not {options.metrics_url!r}.")
    return model, before


def _first(models: Sequence[str], options: LoadOptions) -> str:
    if models:
        return models[0]
    raise LoadError(f"{options.url} lists no models; name one with --model.")


def _reader(options: LoadOptions, transport: Transport) -> emulator.ReadMetrics:
    return partial(metrics_at, options.metrics_url, options) if options.metrics_url else transport.metrics


async def _tick(drive: Drive, on_progress: OnProgress) -> None:
    meter = Meter(drive)
    while True:
        await asyncio.sleep(PROGRESS_EVERY_S)
        on_progress(meter.read())


async def _report(
    options: LoadOptions, drive: Drive, before: emulator.Snapshot | None, readings: emulator.Readings, interrupted: bool
) -> Report:
    fidelity = None
    if before is not None:
        after = await emulator.settled(readings.read)
        fidelity = emulator.difference(before, after)
    summary = summarise(drive.all_times, drive.speed)
    verdict = goodput(drive.all_times, options.slos, drive.speed, summary.duration_s)
    classes = by_class(drive.all_times, drive.speed)
    return Report(
        options.url,
        drive.model,
        summary,
        verdict,
        options.slos,
        fidelity,
        interrupted,
        classes,
        all_times=drive.all_times,
    )
