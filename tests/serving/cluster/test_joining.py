"""A device that joins and does not come up, or whose operator goes away meanwhile, leaves nothing behind."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from serving.cluster import device_manager
from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.device_manager import Devices
from serving.cluster.node import Node, State
from serving.cluster.observer import EdgeObserver, LiveFlights
from serving.policies.router import Router
from serving.policies.routing import parse_router
from serving.scenario.refused_action import RefusedAction

SPEC: Any = SimpleNamespace(sharers=1)
LIMITS: Any = SimpleNamespace(ext_bytes_per_s=1.0, token_s=0.01)


def node_of(index: int) -> Node:
    return Node(index, SPEC, LIMITS, device=None, scheduler=None, tier=None)


class Actors:
    """The devices of a cluster, without actors."""

    def __init__(self) -> None:
        self.ended: list[int] = []
        self.dropped: list[str] = []
        self.hosts = self

    async def look(self) -> None:
        pass

    def start_node(self, index: int, spec: Any, limits: Any) -> Node:
        return node_of(index)

    def end_node(self, node: Node) -> None:
        self.ended.append(node.index)

    def end_tier(self, node: Node) -> None:
        pass


def devices_of(actors: Actors, connect: Any) -> Devices:
    sources: Any = SimpleNamespace(tell_addresses=lambda: None, drop=actors.dropped.extend)
    live = LiveFlights({}, EdgeObserver(), lambda flight, why: None)
    cluster: Any = actors
    router = Router(parse_router("least-loaded").policy())
    devices = Devices(cluster, router, live, sources, DeviceBuffers({0: node_of(0)}))

    async def checked(spec: Any) -> Any:
        return LIMITS

    devices._checked = checked  # type: ignore[method-assign]
    if connect is not None:
        devices.recovery.connect = connect  # type: ignore[method-assign]
    return devices


async def at_once(index: int) -> None:
    """Nothing is to be done before it is connected."""


def test_who_gives_up_waiting_for_a_device_leaves_none_that_starts_for_ever() -> None:
    async def hang(node: Node) -> None:
        await asyncio.Event().wait()

    async def play() -> None:
        devices = devices_of(actors := Actors(), hang)
        adding = asyncio.create_task(devices.add(SPEC, at_once))
        await asyncio.sleep(0.01)
        assert devices.nodes[1].state is State.STARTING
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert (devices.nodes[1].state, actors.ended) == (State.GONE, [1])

    asyncio.run(play())


def test_a_device_for_which_there_is_no_room_is_refused_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray does not say that no node can have its actors: it waits for one that can."""
    monkeypatch.setattr(device_manager, "START_S", 0.1)

    async def hang(node: Node) -> None:
        await asyncio.Event().wait()

    async def play() -> None:
        devices = devices_of(actors := Actors(), None)
        devices.recovery.connect_once = hang  # type: ignore[method-assign]
        async with asyncio.timeout(5.0):
            with pytest.raises(RefusedAction, match=r"Device 1 did not come up within 0 s\."):
                await devices.add(SPEC, at_once)
        assert (devices.nodes[1].state, actors.ended) == (State.GONE, [1])

    asyncio.run(play())


def test_who_gives_up_while_it_warms_up_has_no_tokens_made_for_it() -> None:
    async def connect(node: Node) -> None:
        async def hang(request_id: str, position: int, inbox: Any = None) -> None:
            await asyncio.Event().wait()

        node.calls.open = hang  # type: ignore[method-assign]

    async def play() -> None:
        devices = devices_of(actors := Actors(), connect)
        adding = asyncio.create_task(devices.add(SPEC, at_once))
        await asyncio.sleep(0.01)
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert actors.dropped == ["warm-up-1"]

    asyncio.run(play())


def test_a_device_that_fails_to_come_up_is_refused_in_a_sentence() -> None:
    async def fail(node: Node) -> None:
        raise ConnectionResetError("the other side has gone")

    async def play() -> None:
        devices = devices_of(actors := Actors(), fail)
        with pytest.raises(RefusedAction, match=r"Device 1 did not come up: the other side has gone\."):
            await devices.add(SPEC, at_once)
        assert (devices.nodes[1].state, actors.ended) == (State.GONE, [1])
        assert devices.in_flight(1) == 0  # as whoever lists the devices asks
        devices.nodes[0].state = State.LOST
        with pytest.raises(RefusedAction, match="Device 0 did not come up"):
            await devices.revive(0)
        assert devices.nodes[0].state is State.LOST

    asyncio.run(play())


def test_devices_wait_until_ray_has_said_which_nodes_there_are_and_each_is_another_one() -> None:
    async def connect(node: Node) -> None:
        raise ConnectionResetError("the other side has gone")

    async def play() -> None:
        answered = asyncio.Event()
        actors = Actors()
        actors.look = answered.wait  # type: ignore[method-assign,assignment]
        devices = devices_of(actors, connect)
        adding = [asyncio.create_task(devices.add(SPEC, at_once)) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert list(devices.nodes) == [0]
        answered.set()
        await asyncio.wait(adding)
        assert sorted(actors.ended) == [1, 2] and all(isinstance(each.exception(), RefusedAction) for each in adding)

    asyncio.run(play())
