"""Are requests that go on elsewhere left by a device that works after all?"""

import asyncio
from types import SimpleNamespace
from typing import Any

from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.device_calls import DeviceCalls
from serving.cluster.node import Node, State
from serving.cluster.observer import EdgeObserver, LiveFlights
from serving.cluster.recovery import Recovery
from serving.cluster.sources.replacements import SourceActors
from serving.cluster.sources.token_sources import TokenSources
from serving.flight import Flight
from serving.policies.router import Router
from serving.policies.routing import parse_router
from serving.types import Request


class Told(DeviceCalls):
    """Keeps which requests are to be dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped = list[str]()

    def drop(self, request_ids: list[str]) -> None:
        self.dropped += request_ids


def test_a_device_that_has_failed_too_often_and_is_back_is_told_to_drop_them() -> None:
    nothing: Any = None
    tier = SimpleNamespace(release=SimpleNamespace(remote=lambda *device: None))
    nodes = {index: Node(index, nothing, nothing, None, None, tier, State.SERVING, calls=Told()) for index in (0, 1)}
    router = Router(parse_router("least-loaded").policy())
    for index in nodes:
        router.add(index, 0.01)
    flights = {id: Flight(None, request := Request(id, 0.0, 8, 40), router.choose(request, 0)) for id in "ab"}
    buffers, live = DeviceBuffers(nodes), LiveFlights(flights, EdgeObserver(), lambda flight, why: None)
    sources = TokenSources(SourceActors(lambda index: None, 0, 0), live, buffers)
    recovery = Recovery(nothing, router, live, sources, buffers, lambda devices: None)
    asyncio.run(recovery._go_on_elsewhere(nodes[0]))
    assert [flight.device for flight in flights.values()] == [1, 1] and nodes[0].state is State.LOST
    dropped = [node.calls.dropped for node in nodes.values() if isinstance(node.calls, Told)]
    assert dropped == [["a", "b"], []]
