"""Is a prompt looked for where it is, once the prefix caches of devices were emptied?"""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.device_manager import Devices
from serving.cluster.node import Node, State
from serving.cluster.observer import EdgeObserver, LiveFlights
from serving.edge.operations.gate import Gate
from serving.edge.operations.utility_calls import UtilityCalls
from serving.flight import Flight
from serving.policies.router import Router
from serving.policies.routing import parse_router
from serving.types import Request

UNKNOWN: Any = None


class Idle(UtilityCalls):
    """The utility calls of two idle devices, whose caches are emptied, or not, when it is asked for."""

    def __init__(self, emptied: bool) -> None:
        async def flush() -> bool:
            return emptied

        scheduler: Any = SimpleNamespace(flush=SimpleNamespace(remote=flush))
        nodes = {index: Node(index, UNKNOWN, UNKNOWN, UNKNOWN, scheduler, UNKNOWN, State.SERVING) for index in range(2)}
        self.router = Router(parse_router("prefix-affine").policy())
        for index in nodes:
            self.router.add(index, 0.01)
        live = LiveFlights({}, EdgeObserver(), lambda flight, why: None)
        self.devices = Devices(UNKNOWN, self.router, live, UNKNOWN, DeviceBuffers(nodes))
        self.gate = Gate()

    @property
    def flights(self) -> list[Flight]:
        return []

    def abort_all(self) -> None:
        """There are none."""

    def shutdown(self, timeout: float | None = None) -> None:
        """Nothing was started."""

    def goes_to(self, id: str) -> int:
        """Where one goes whose prompt device 1 has had, if that counts; else to the first of two equals."""
        request = Request(id, 0.0, 64, 8, blocks=[1, 2, 3, 4])
        device = self.router.choose(request)
        self.router.done([(device, request)])
        return device


async def reset(calls: Idle) -> None:
    await calls.reset_prefix_cache_async()


async def pause(calls: Idle) -> None:
    await calls.pause_scheduler_async()


@pytest.mark.parametrize("how", [reset, pause])
@pytest.mark.parametrize("emptied", [True, False])
def test_a_prompt_is_known_where_it_has_been_until_the_cache_is_emptied(
    how: Any, emptied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.edge.operations.utility_calls.SETTLED_S", 0.0)
    calls = Idle(emptied)
    first = Request("first", 0.0, 64, 8, blocks=[1, 2, 3, 4])
    calls.router.done([(calls.router.choose(first, named=1), first)])
    asyncio.run(how(calls))
    assert calls.goes_to("next") == (0 if emptied else 1)
