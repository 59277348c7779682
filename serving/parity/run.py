"""The same requests three times: in virtual time as planned, live, and in virtual time as they arrived live."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from serving.load.options import LoadOptions
from serving.load.report import Report
from serving.parity.figures import CLIENT, ComparedRow, rows_of
from serving.parity.live import run_live
from serving.parity.replay import replay
from serving.parity.schedule import Agreement, agreement, slipped
from serving.parity.spread import Key, Spread, spread
from serving.parity.verdict import Check, checks_of, differs
from serving.scenario.scenario import Scenario, ScenarioError
from serving.simulation.model_caveats import model_caveats, shares_of
from serving.simulation.play import play
from serving.types import StepRecord
from serving.workload import WorkloadError, load_workload

ANY_PORT: dict[str, Any] = {"host": "127.0.0.1", "http_port": 0, "grpc_port": 0}
NO_TLS: dict[str, Any] = {"tls_cert": "", "tls_key": "", "tls_client_ca": ""}
"""TLS changes nothing that is compared, and its certificates are for another name."""
ALL_ADMITTED: dict[str, Any] = {
    "early_rejection": False,
    "key_requests_per_min": 0,
    "key_tokens_per_min": 0,
    "max_queue": 1_000_000,
}
"""Rejections follow from forecasts and queues, which a slip changes; without rejections schedules can be compared."""


@dataclass(frozen=True, slots=True)
class Parity:
    """The result of a comparison.

    `rows` are the requests served both live and in virtual time, of `planned` in all. `arrived` compares the live
    schedule with virtual time at the live arrivals; `heard` does so with the `slips` requests that slipped a step live
    arriving a step later. `steps` are by run: live, arrived, planned.
    """

    scenario: Scenario
    planned: int
    report: Report
    rows: list[ComparedRow]
    steps: dict[str, list[StepRecord]]
    arrived: Agreement
    heard: Agreement
    slips: int
    checks: list[Check]
    spreads: dict[Key, Spread]

    @property
    def failures(self) -> list[str]:
        """Failed requests, and differences beyond their limits that are not by chance, a clause each."""
        summary = self.report.summary
        of = f"of {summary.requests} requests"
        found = [f"{of} {each.count} failed live: {each.status}: {each.message}" for each in summary.errors]
        if self.report.broken:
            found.append(f"the workload broke off: {self.report.broken}")
        if not self.rows:
            found.append("no request was served both live and in virtual time")
        found += [str(check) for check in self.checks if not (check.within or check.chance)]
        different = differs(self.arrived, self.heard)
        return [*found, different] if different and not self.shared else found

    @property
    def caveats(self) -> list[str]:
        """What is to be known of the device model that live and virtual time share, a sentence each."""
        return model_caveats(self.scenario, [shares_of(self.steps["live"])])

    @property
    def shared(self) -> bool:
        """Tell whether devices share a slow tier: live they ask for shares, and go on until the answer is there."""
        return self.scenario.shared_ext > 1

    @property
    def doubts(self) -> list[str]:
        """Differences beyond their limits that may be by chance, a clause each."""
        return [str(check) for check in self.checks if check.chance]

    @property
    def hosts_own(self) -> bool:
        """Tell whether all failures are in the client's figures, so that the host is their cause, not the device."""
        beyond = [check for check in self.checks if not (check.within or check.chance)]
        return 0 < len(beyond) == len(self.failures) and all(check.side == CLIENT for check in beyond)

    @property
    def agree(self) -> bool:
        """Tell whether live and virtual time agree, without failures or doubts."""
        return not self.failures and not self.doubts


def parity(scenario: Scenario, load: LoadOptions, grpc: bool, say: Callable[[str], None]) -> Parity:
    """Serve a workload in virtual time, live, and in virtual time as it arrived live; `say` gets progress, a line each.

    Raise ScenarioError for features that virtual time lacks, WorkloadError, and the errors of a server and a load.
    """
    assert load.workload is not None
    scenario = comparable(scenario)
    workload = load_workload(load.workload, load.seed, load.num_requests, load.duration_s)
    if workload.agents:
        told = "has `agents`, whose calls are live as long as the model makes them; allowed is a workload without them"
        raise WorkloadError(f"{load.workload} {told}.")
    # First of all, because errors in the files show here within a second.
    planned, planned_steps = play(workload, scenario, leaps=False)
    if not planned:
        raise WorkloadError(f"{load.workload} has no request within its time: let it last longer (--duration).")
    last_s = max((outcome.last_s for outcome in planned if not outcome.refused), default=0.0)
    say(f"In virtual time {len(planned)} requests take {last_s:.4g} s; live, {last_s / scenario.speed:.4g} s.")
    live = run_live(scenario, load, grpc)
    arrived, arrived_steps = replay(scenario, live.flights, {})
    late = slipped(live.records, live.flights)
    heard_steps = replay(scenario, live.flights, late)[1] if late else arrived_steps
    rows = rows_of(live.report.all_times, scenario.speed, live.flights, (arrived, planned), late)
    step_s = sum(record.latency_s for record in live.records) / max(1, len(live.records))
    spreads = spread(workload, scenario, rows, step_s)
    return Parity(
        scenario=scenario,
        planned=len(planned),
        report=live.report,
        rows=rows,
        steps={"live": live.records, "arrived": arrived_steps, "planned": planned_steps},
        arrived=agreement(live.records, arrived_steps),
        heard=agreement(live.records, heard_steps),
        slips=len(late),
        checks=checks_of(rows, scenario.speed, spreads),
        spreads=spreads,
    )


def comparable(scenario: Scenario) -> Scenario:
    """Return the scenario as both sides can serve it, without rejections.

    Raise ScenarioError where virtual time would serve another device.
    """
    if scenario.residency == "trace":
        raise ScenarioError(
            "`residency` is 'trace': a server follows its token model's routers, and virtual time a recording of some, "
            "so that their steps can't be the same; compare with 'analytic'.",
            "residency",
        )
    if scenario.faults:
        raise ScenarioError(
            "`faults` are counted from when a server is ready, which is not when its load begins: compare without "
            "them.",
            "faults",
        )
    return dataclasses.replace(scenario, **ALL_ADMITTED, **ANY_PORT, **NO_TLS)
