"""The edge's judge, made from a scenario, and what keeps its forecast in step with the devices."""

from collections.abc import Sequence

from serving.admission.expected_device import expect
from serving.admission.forecast import Forecast
from serving.admission.rate_limits import Keys
from serving.admission.request_options import WishReader
from serving.admission.reservations import Admission
from serving.admission.rules import Rules
from serving.clock import WallClock
from serving.cluster.cluster import Node, State
from serving.scenario.scenario import Scenario
from serving.scenario.slo import parse_classes
from serving.scheduler.config import Limits as DeviceLimits
from serving.topics.names import NAMES


def admission_of(scenario: Scenario, keys: Sequence[bytes], clock: WallClock) -> Admission:
    """Who is admitted, by the scenario's rules, and by what the devices are forecast to do; `keys` are the digests of
    those that limits are of."""
    return Admission(
        WishReader(parse_classes(scenario.slo_classes, "`slo_classes`"), scenario.default_slo, NAMES),
        Keys(keys),
        # Of the context vLLM takes care.
        Rules.of(scenario, None, scenario.early_rejection),
        clock,
    )


def follow(forecast: Forecast, node: Node, limits: DeviceLimits) -> None:
    """A device has joined, or is in another state or condition: only one that serves is forecast for."""
    if node.state is not State.SERVING:
        forecast.close(node.index)
        return
    expect(forecast, node.index, node.emulated, limits)
