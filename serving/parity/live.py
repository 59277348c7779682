"""The live side: a server of a scenario, loaded by the load client, and the records of both."""

from dataclasses import dataclass, replace

import uvloop

from serving.load.options import LoadOptions
from serving.load.report import Report
from serving.load.run import run_load
from serving.process.progress_line import ProgressLine
from serving.process.run_folder import run_folder
from serving.process.server_process import server
from serving.scenario.command_line import options_of
from serving.scenario.scenario import Scenario
from serving.security.api_keys import api_keys, environment_of
from serving.telemetry.flight_log import FlightRecord, read_flight_log
from serving.telemetry.step_log import read_step_log
from serving.types import StepRecord


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A live run: the client's report, the server's log of requests, and all steps of its devices."""

    report: Report
    flights: list[FlightRecord]
    records: list[StepRecord]


def run_live(scenario: Scenario, load: LoadOptions, grpc: bool) -> LiveRun:
    """Start the scenario's server, send it the load, and stop it. Raise ServerFailed, and the errors of `run_load`."""
    with run_folder() as folder:
        steps, flights = folder / "steps.jsonl", folder / "flights.jsonl"
        logs = ("--step-log", str(steps), "--flight-log", str(flights))
        keys, environment = api_keys(scenario), environment_of(scenario)
        options = (*options_of(scenario), *logs)
        with server(*options, quiet=True, environment=environment) as child, ProgressLine() as line:
            key = keys[0] if keys else None
            url, metrics_url = child.grpc_url if grpc else child.http_url, f"{child.http_url}/metrics"
            report = uvloop.run(run_load(replace(load, url=url, metrics_url=metrics_url, api_key=key), line))
        return LiveRun(report, read_flight_log(flights), read_step_log(steps))
