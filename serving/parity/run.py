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
from serving.simulation.play import play
from serving.types import StepRecord
from serving.workload import WorkloadError, load_workload

ANY_PORT: dict[str, Any] = {"host": "127.0.0.1", "http_port": 0, "grpc_port": 0}
NO_TLS: dict[str, Any] = {"tls_cert": "", "tls_key": "", "tls_client_ca": ""}
"""It changes nothing that is compared, and takes certificates that are for another name."""
ALL_ADMITTED: dict[str, Any] = {"early_rejection": False, "key_requests_per_min": 0, "key_tokens_per_min": 0}
"""Who is turned away follows from forecasts, which a slip changes; schedules without them can be compared."""


@dataclass(frozen=True, slots=True)
class Parity:
    """What came of it. `rows` are the requests that were served live and virtually, of `planned` in all; `arrived` and
    `heard` compare the schedules: with the arrivals that there were, and with those of `slips` requests that slipped a
    step live a step later. Steps by who made them: live, as arrived, as planned."""

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
        """What is not as it should be, and not by chance, a clause each."""
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
    def shared(self) -> bool:
        """Tell whether devices share an LPDDR tier: live they ask for shares, and go on until the answer is there."""
        return self.scenario.shared_ext > 1

    @property
    def doubts(self) -> list[str]:
        """What is beyond its limit, perhaps by chance, a clause each."""
        return [str(check) for check in self.checks if check.chance]

    @property
    def hosts_own(self) -> bool:
        """Tell whether all that is not as it should be is what the client saw, and not what the device did."""
        beyond = [check for check in self.checks if not (check.within or check.chance)]
        return 0 < len(beyond) == len(self.failures) and all(check.side == CLIENT for check in beyond)

    @property
    def agree(self) -> bool:
        """Tell whether live and virtual time do, as far as is known."""
        return not self.failures and not self.doubts


def parity(scenario: Scenario, load: LoadOptions, grpc: bool, say: Callable[[str], None]) -> Parity:
    """Run it. Raises `ScenarioError` for what virtual time doesn't have, `WorkloadError`, and what a server and a load
    raise."""
    assert load.workload is not None
    scenario = comparable(scenario)
    workload = load_workload(load.workload, load.seed, load.num_requests, load.duration_s)
    # First of all, because what is wrong with the files shows here within a second.
    planned, planned_steps = play(workload, scenario, leaps=False)
    if not planned:
        raise WorkloadError(f"{load.workload} has no request within its time: let it last longer (--duration).")
    last_s = max(outcome.last_s for outcome in planned)
    say(f"In virtual time {len(planned)} requests take {last_s:.4g} s; live, {last_s / scenario.speed:.4g} s.")
    live = run_live(scenario, load, grpc)
    arrived, arrived_steps = replay(scenario, live.flights, {})
    late = slipped(live.records, live.flights)
    heard_steps = replay(scenario, live.flights, late)[1] if late else arrived_steps
    rows = rows_of(live.report.traces, scenario.speed, live.flights, (arrived, planned), late)
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
    """The scenario as both can serve it: nobody is turned away. Raises `ScenarioError` where virtual time is another
    device."""
    if scenario.residency == "trace":
        raise ScenarioError(
            "`residency` is 'trace': a server follows its token model's routers, and virtual time a recording of some, "
            "so that their steps can't be the same; compare with 'analytic'."
        )
    if scenario.faults:
        raise ScenarioError(
            "`faults` are counted from when a server is ready, which is not when its load begins: compare without them."
        )
    return dataclasses.replace(scenario, **ALL_ADMITTED, **ANY_PORT, **NO_TLS)
