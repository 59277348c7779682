"""What came in live, served once more in virtual time, on the devices on which it was served."""

from collections.abc import Iterable, Mapping

from serving.scenario.scenario import Scenario
from serving.simulation.node import Outcome
from serving.simulation.simulator import Simulator
from serving.telemetry.flight_log import FlightRecord
from serving.types import Request, StepRecord


class Replayed(Simulator):
    """A scenario whose router chooses as it did before: by request, on which device it was served."""

    def __init__(self, scenario: Scenario, homes: Mapping[str, int]) -> None:
        """Step by step, as a server does it. Raises as `Simulator` does."""
        super().__init__(scenario, leaps=False)
        self._homes = homes

    def home(self, request: Request) -> int:
        """Where it was served."""
        return self._homes[request.id]


def replay(
    scenario: Scenario, flights: Iterable[FlightRecord], instead_s: Mapping[str, float]
) -> tuple[dict[str, Outcome], list[StepRecord]]:
    """What becomes of requests that arrive as they did live, by id, and all steps; of some, as if they had arrived
    at the instants that `instead_s` has for them."""
    ordered = sorted(flights, key=lambda each: (instead_s.get(each.id, each.arrival_s), each.place))
    homes = {each.id: each.device for each in ordered}
    requests = [each.arriving(instead_s.get(each.id)) for each in ordered]
    outcomes, records = Replayed(scenario, homes).serve(requests)
    return {outcome.request.id: outcome for outcome in outcomes}, records
