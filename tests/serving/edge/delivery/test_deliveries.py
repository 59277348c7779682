"""Are the tokens of a request counted that its edge has from a device, and of which this has not told yet?"""

import pytest

from serving.clock import WallClock
from serving.cluster.observer import EdgeObserver
from serving.cluster.sources.recorded_source import AHEAD, PAGE
from serving.edge.delivery.deliveries import Deliveries
from serving.edge.delivery.token_order import TokenOrder
from serving.flight import Flight
from serving.types import Chunk, Request


@pytest.mark.parametrize("untold", [0, 1, 600, AHEAD + PAGE])
def test_the_last_tokens_of_who_is_ended_at_the_edge_are_counted_however_far_behind_the_core_is(untold: int) -> None:
    order, deliveries, told = TokenOrder(), Deliveries(EdgeObserver(), WallClock(0.0)), 400
    order.begin("a")
    order.take(Chunk("a", position, [position]) for position in range(told + untold))
    flight = Flight(None, Request("a", 0.0, 1, 9), 0, tokens=list(range(told)))
    (last,) = order.end(["a"])
    deliveries.catch_up(flight, last.first, last.tokens)
    assert flight.tokens == list(range(told + untold))
