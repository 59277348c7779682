"""Does a device that drains, and dies meanwhile for good, end, rather than come back into service?"""

import asyncio

from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.node import Node, State
from serving.cluster.observer import EdgeObserver, LiveFlights
from serving.cluster.recovery import Recovery
from serving.cluster.sources.replacements import SourceActors
from serving.cluster.sources.token_sources import TokenSources
from serving.flight import Flight
from serving.policies.router import Router
from serving.policies.routing import parse_router
from serving.types import Request


def test_its_requests_go_on_elsewhere_and_it_is_done() -> None:
    # No actors stand behind them: nothing can be sent to either.
    nodes = {index: Node(index, None, None, None, None, None, State.SERVING) for index in (0, 1)}  # type: ignore[arg-type]
    router = Router(parse_router("least-loaded").policy())
    for index in nodes:
        router.add(index, 0.01)
    request = Request("a", 0.0, 8, 40)
    flight = Flight(None, request, device=router.choose(request, 0))
    router.close(0)
    nodes[0].state = State.DRAINING
    buffers = DeviceBuffers(nodes)
    live = LiveFlights({"a": flight}, EdgeObserver(), lambda flight, why: None)
    sources = TokenSources(SourceActors(lambda index: None, 0, 0), live, buffers)
    departed: list[list[int]] = []
    recovery = Recovery(None, router, live, sources, buffers, departed.append)  # type: ignore[arg-type]
    asyncio.run(recovery._go_on_elsewhere(nodes[0]))
    assert flight.device == 1 and departed == [[0]] and router.in_flight(0) == 0
    # A device that was lost would have requests again once it is back.
    assert nodes[0].state is State.DRAINING
