"""Replay in virtual time: the live arrivals, each on the device that served it live."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from serving.policies.routing import FleetView, RoutingPolicy
from serving.scenario.scenario import Scenario
from serving.simulation.node import Outcome
from serving.simulation.simulator import Simulator
from serving.telemetry.flight_log import FlightRecord
from serving.types import Request, StepRecord


class LiveChoices:
    """The routing policy that repeats the live choices: `homes` has the device of each request, by id. Where that takes
    no requests, `otherwise` chooses."""

    def __init__(self, homes: Mapping[str, int], otherwise: RoutingPolicy) -> None:
        self._homes, self._otherwise = homes, otherwise

    def choose(self, request: Request, devices: Sequence[FleetView]) -> FleetView:
        home = self._homes[request.id]
        found = next((view for view in devices if view.index == home), None)
        return found or self._otherwise.choose(request, devices)

    def note(self, request: Request, device: int) -> None:
        """Have those that choose otherwise remember where a request goes."""
        self._otherwise.note(request, device)

    def forget(self, device: int) -> None:
        """Have those that choose otherwise forget what a device has had."""
        self._otherwise.forget(device)


def replay(
    scenario: Scenario, flights: Iterable[FlightRecord], instead_s: Mapping[str, float]
) -> tuple[dict[str, Outcome], list[StepRecord]]:
    """Serve the live arrivals in virtual time, step by step, each on its device; return the outcomes by request id, and
    all steps. Raise the errors of `Simulator`.

    `instead_s`: other instants of arrival for some requests, by id, in emulated seconds.
    """
    ordered = sorted(flights, key=lambda each: (instead_s.get(each.id, each.arrival_s), each.place))
    homes = {each.id: each.device for each in ordered}
    # The server's log has keys by their names, of which it knows each.
    names = sorted({each.request.key for each in ordered} - {""})
    named = replace(scenario, api_keys=tuple(names), api_key_file="")
    requests = [each.arriving(instead_s.get(each.id)) for each in ordered]
    policy = LiveChoices(homes, scenario.router_spec.policy())
    outcomes, records = Simulator(named, leaps=False, policy=policy).serve(requests)
    return {outcome.request.id: outcome for outcome in outcomes}, records
