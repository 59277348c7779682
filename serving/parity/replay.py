"""Replay in virtual time: the live arrivals, each on the device that served it live."""

from collections.abc import Iterable, Mapping

from serving.scenario.scenario import Scenario
from serving.simulation.node import Outcome
from serving.simulation.simulator import Simulator
from serving.telemetry.flight_log import FlightRecord
from serving.types import Request, StepRecord


class Replayed(Simulator):
    """A simulator whose router repeats the live choices: `homes` has the device of each request, by id."""

    def __init__(self, scenario: Scenario, homes: Mapping[str, int]) -> None:
        """Simulate step by step, as a server does. Raise the errors of `Simulator`."""
        super().__init__(scenario, leaps=False)
        self._homes = homes

    def home(self, request: Request) -> int:
        """Return the device that served the request live."""
        return self._homes[request.id]


def replay(
    scenario: Scenario, flights: Iterable[FlightRecord], instead_s: Mapping[str, float]
) -> tuple[dict[str, Outcome], list[StepRecord]]:
    """Serve the live arrivals in virtual time; return the outcomes by request id, and all steps.

    `instead_s`: other instants of arrival for some requests, by id, in emulated seconds.
    """
    ordered = sorted(flights, key=lambda each: (instead_s.get(each.id, each.arrival_s), each.place))
    homes = {each.id: each.device for each in ordered}
    requests = [each.arriving(instead_s.get(each.id)) for each in ordered]
    outcomes, records = Replayed(scenario, homes).serve(requests)
    return {outcome.request.id: outcome for outcome in outcomes}, records
