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
from serving.scheduler.config import Limits
from serving.scheduler.scheduler import Scheduler
from serving.types import Done, Request

UNKNOWN: Any = None


def actor(scheduler: Scheduler) -> Any:
    """A scheduler as if it were in another process."""

    async def flush() -> bool:
        return scheduler.flush()

    return SimpleNamespace(flush=SimpleNamespace(remote=flush))


class Idle(UtilityCalls):
    """The utility calls of two devices of which the edge has no requests, with their schedulers."""

    def __init__(self) -> None:
        self.schedulers = [Scheduler(Limits(4, 64, 400, 16)) for _ in range(2)]
        actors = [actor(each) for each in self.schedulers]
        nodes = {
            index: Node(index, UNKNOWN, UNKNOWN, UNKNOWN, each, UNKNOWN, State.SERVING)
            for index, each in enumerate(actors)
        }
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

    def serve(self, request: Request, device: int) -> None:
        """Have a device begin with a request; the edge hears of its end."""
        self.router.done([(self.router.choose(request, named=device), request)])
        self.schedulers[device].submit(request, in_time=True)
        assert self.schedulers[device].plan(0.0, 0.0, -1.0, Done()).ids == [request.id]

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
@pytest.mark.parametrize("ended", [True, False])
def test_a_prompt_is_known_where_it_has_been_until_the_cache_is_emptied(
    how: Any, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache is not emptied while the device has not heard of the end of its last request."""
    monkeypatch.setattr("serving.edge.operations.utility_calls.SETTLED_S", 0.0)
    calls = Idle()
    calls.serve(Request("first", 0.0, 64, 8, blocks=[1, 2, 3, 4]), 1)
    if ended:
        calls.schedulers[1].abort("first")
    asyncio.run(how(calls))
    assert calls.goes_to("next") == (0 if ended else 1)
