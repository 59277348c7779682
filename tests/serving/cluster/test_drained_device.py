"""Does a device that drains, and dies or is lost meanwhile, end, rather than come back into service?"""

import asyncio
from types import SimpleNamespace
from typing import Any

from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.device_manager import Devices
from serving.cluster.fault_injector import FaultInjector
from serving.cluster.node import Node, State
from serving.cluster.observer import EdgeObserver, LiveFlights
from serving.cluster.recovery import Recovery
from serving.cluster.sources.replacements import SourceActors
from serving.cluster.sources.token_sources import TokenSources
from serving.flight import Flight
from serving.policies.router import Router
from serving.policies.routing import parse_router
from serving.scenario.faults import LOST, Fault
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


class Active(EdgeObserver):
    """Counts the faults that began, and those that have not ended."""

    def __init__(self) -> None:
        self.began = self.active = 0

    def on_fault(self, device: int, kind: str, begins: bool) -> None:
        self.began += begins
        self.active += 1 if begins else -1


def test_one_that_is_lost_meanwhile_is_gone_and_does_not_come_back_when_the_fault_is_over() -> None:
    spec: Any = SimpleNamespace(sharers=1)
    nodes = {index: Node(index, spec, None, None, None, None, State.SERVING) for index in (0, 1)}  # type: ignore[arg-type]
    router = Router(parse_router("least-loaded").policy())
    for index in nodes:
        router.add(index, 0.01)
    flight = Flight(None, request := Request("a", 0.0, 8, 40), device=router.choose(request, 0))
    cluster: Any = SimpleNamespace(end_node=lambda node: None, end_tier=lambda node: None)
    sources: Any = SimpleNamespace(tell_addresses=lambda: None)
    live = LiveFlights({"a": flight}, observer := Active(), lambda flight, why: None)

    async def play() -> None:
        devices = Devices(cluster, router, live, sources, DeviceBuffers(nodes))
        injector = FaultInjector(devices, SimpleNamespace(now=lambda: 5.0), 0)  # type: ignore[arg-type]
        devices.drain(0)
        told = await injector.inject(Fault(LOST, device=0))
        assert flight.device == 1 and nodes[0].state is State.GONE
        assert list(router._views) == [1] and router.in_flight(1) == 1
        assert (observer.began, observer.active) == (1, 0)
        await injector.clear(told.id)
        assert nodes[0].state is State.GONE and observer.active == 0

    asyncio.run(play())
