"""The edge's judge, made from a scenario, and what keeps its forecast in step with the devices."""

from collections.abc import Sequence
from functools import partial

from serving.admission import Admission
from serving.clock import WallClock
from serving.cluster import Node, State
from serving.corpus.parts import OTHER, TOPICS
from serving.expecting import expect
from serving.forecast import Forecast
from serving.key_limits import Keys, Limits
from serving.rules import Limits as DeviceLimits
from serving.scenario import Scenario
from serving.slo import parse_classes
from serving.wishes import WishReader


def admission_of(scenario: Scenario, keys: Sequence[bytes], clock: WallClock) -> Admission:
    """Who is admitted, by the scenario's rules, and by what the devices are forecast to do; `keys` are the digests of
    those that limits are of."""
    return Admission(
        WishReader(parse_classes(scenario.slo_classes, "`slo_classes`"), scenario.default_slo, (*TOPICS, OTHER)),
        Keys(keys),
        partial(Limits.of, scenario.key_requests_per_min, scenario.key_tokens_per_min),
        Forecast(),
        clock,
        scenario.early_rejection,
    )


def follow(forecast: Forecast, node: Node, limits: DeviceLimits) -> None:
    """A device has joined, or is in another state or condition: only one that serves is forecast for."""
    if node.state is not State.SERVING:
        forecast.close(node.index)
        return
    expect(forecast, node.index, node.emulated, limits)
