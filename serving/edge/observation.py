"""Observation options: logs and traces that the command line asks for, and the observers that write them."""

import argparse
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from serving.clock import WallClock
from serving.cluster.node import Node
from serving.cluster.observer import EdgeObserver
from serving.process.logs import FORMATS, LEVELS, start_logging
from serving.scenario.options import named_path
from serving.telemetry.flight_log import FlightLog
from serving.telemetry.step_log import StepLog
from serving.telemetry.tracing.otlp import Otlp
from serving.usage_error import UsageError

if TYPE_CHECKING:
    from serving.telemetry.tracing.call_traces import Tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the observation options of `foreserve serve`."""
    parser.add_argument(
        "--step-log",
        type=named_path,
        metavar="FILE",
        help="write a line of JSON there for each step, or Parquet if it ends in .parquet (see `foreserve trace`)",
    )
    parser.add_argument(
        "--flight-log",
        type=named_path,
        metavar="FILE",
        help="write a line of JSON there for each request once it has ended: all that its device's scheduler knew of "
        "it, so that it can be served again in virtual time, and when it had its tokens",
    )
    parser.add_argument(
        "--otlp-traces-endpoint",
        metavar="URL",
        help="send a trace of each request there, such as http://localhost:4317; the protocol is gRPC unless "
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL says http/protobuf",
    )
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="of log lines (default: text)")
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="least that is logged (default: info)")
    parser.add_argument("--log-requests", action="store_true", help="log a line for each request, at level info")


@dataclass(frozen=True, slots=True)
class ObservationOptions:
    """The observation of an emulation beside its metrics."""

    step_log: StepLog | None = None
    otlp: Otlp | None = None
    log_requests: bool = False
    flight_log: FlightLog | None = None
    log_format: str = FORMATS[0]
    log_level: str = "info"

    @property
    def traced(self) -> bool:
        """Whether calls are logged or traced."""
        return self.otlp is not None or self.log_requests

    def observers(self, nodes: Iterable[Node], clock: WallClock, model: str) -> list[EdgeObserver]:
        """Return the observers of devices and of requests for the model named `model`."""
        from serving.telemetry.tracing.call_traces import CallTraces
        from serving.telemetry.tracing.device_log import DeviceLog
        from serving.telemetry.tracing.request_log import log_request

        observers: list[EdgeObserver] = [DeviceLog(nodes)]
        observers += [log for log in (self.step_log, self.flight_log) if log is not None]
        tell: list[Tell] = []
        if self.otlp is not None:
            from serving.telemetry.tracing.send import send

            tell.append(partial(send, tracer=self.otlp.tracer, model=model, clock=clock))
        # After the trace, whose id is in the line.
        tell += [log_request] if self.log_requests else []
        return [*observers, CallTraces(clock, tell)] if tell else observers


def observe(args: argparse.Namespace, stack: contextlib.ExitStack) -> ObservationOptions:
    """Open what the arguments ask for until `stack` closes. Raise `UsageError`."""
    if args.step_log and args.flight_log and Path(args.step_log).resolve() == Path(args.flight_log).resolve():
        raise UsageError(f"--step-log and --flight-log are both {args.step_log}; allowed are two files.")
    start_logging(args.log_format, args.log_level)
    otlp = Otlp(args.otlp_traces_endpoint) if args.otlp_traces_endpoint else None
    step_log = stack.enter_context(StepLog(args.step_log)) if args.step_log else None
    flight_log = stack.enter_context(FlightLog(args.flight_log)) if args.flight_log else None
    traces = stack.enter_context(otlp) if otlp else None
    return ObservationOptions(step_log, traces, args.log_requests, flight_log, args.log_format, args.log_level)
