"""The edge's judge, made from a scenario, and what keeps its forecast in step with the devices."""

from functools import cache, partial

from serving.admission import Admission
from serving.clock import WallClock
from serving.cluster import Node, State
from serving.corpus.parts import OTHER, TOPICS
from serving.emulated import Emulated
from serving.forecast import Forecast, Queue
from serving.key_limits import Keys, Limits
from serving.pace import Pace
from serving.rules import Limits as DeviceLimits
from serving.scenario import Scenario
from serving.slo import parse_classes
from serving.wishes import WishReader


def admission_of(scenario: Scenario, clock: WallClock) -> Admission:
    """Who is admitted, by the scenario's rules, and by what the devices are forecast to do."""
    return Admission(
        WishReader(parse_classes(scenario.slo_classes, "`slo_classes`"), scenario.default_slo, (*TOPICS, OTHER)),
        Keys(scenario.api_keys),
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
    seqs, tokens = limits.max_num_seqs, limits.max_num_batched_tokens
    pace = _pace_of(node.emulated, seqs, tokens)
    if node.index in forecast.devices:
        forecast.set_pace(node.index, pace)
    else:
        forecast.add(node.index, Queue(pace, seqs, tokens, limits.kv_capacity_tokens))


@cache
def _pace_of(emulated: Emulated, max_num_seqs: int, max_num_batched_tokens: int) -> Pace:
    """The same for all devices of a kind, and it takes a hundred probes."""
    return Pace(emulated.load().device, max_num_seqs, max_num_batched_tokens)
