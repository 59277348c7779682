"""Does a device that dies go on with its requests, and do they go on elsewhere, or end, once nobody should wait for it?

Its actors' processes are threads here, which answer on real sockets; what can be connected is up to the test.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from serving.cluster import recovery as recovery_module
from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.endpoints.tier import TierService
from serving.cluster.node import Node, State
from serving.cluster.observer import EdgeObserver, LiveFlights
from serving.cluster.recovery import Recovery
from serving.cluster.sources.replacements import SourceActors
from serving.cluster.sources.token_sources import TokenSources
from serving.cluster.streams import sockets
from serving.cluster.streams.rpc import RpcServer
from serving.cluster.streams.sockets import Address
from serving.flight import Flight
from serving.policies.router import Router
from serving.policies.routing import LeastLoaded
from serving.process import backoff
from serving.scheduler.config import Limits
from serving.types import Request

LIMITS = Limits(4, 256, 4096)


class Forgetting(LeastLoaded):
    """A policy of which it is known what it forgot."""

    def __init__(self) -> None:
        self.forgotten: list[int] = []

    def forget(self, device: int) -> None:
        self.forgotten.append(device)


class Actors:
    """A device's and its scheduler's processes: they take what they are told."""

    def __init__(self, folder: Path, index: int) -> None:
        self.submitted: list[Request] = []
        self.limits = 0
        device = [self.open, self.close]
        scheduler = [self.submit, self.abort, self.limit]
        servers = [RpcServer(device, folder, f"device-{index}", False)]
        servers.append(RpcServer(scheduler, folder, f"scheduler-{index}", False))
        self.addresses = [server.address for server in servers]
        for server in servers:
            threading.Thread(target=server.run, args=[lambda dropped: None], daemon=True).start()

    def open(self, request_id: str, position: int, inbox: Address | None) -> None:
        pass

    def close(self, request_ids: list[str]) -> None:
        pass

    def submit(self, request: Request) -> None:
        self.submitted.append(request)

    def abort(self, request_ids: list[str]) -> None:
        pass

    def limit(self, limits: Limits) -> None:
        self.limits += 1


class Fleet(EdgeObserver):
    """Devices on one slow tier, with a request of eight tokens each, of which the client has three; those in `down`
    can't be connected, for the reason that stands there."""

    def __init__(self, folder: Path, devices: int) -> None:
        self.actors = [Actors(folder, index) for index in range(devices)]
        self.tier = TierService(100.0)
        tier = SimpleNamespace(release=SimpleNamespace(remote=self.tier.release))
        self.nodes = {
            index: Node(index, None, None, None, None, tier, State.SERVING)  # type: ignore[arg-type]
            for index in range(devices)
        }
        self.policy = Forgetting()
        self.router = Router(self.policy)
        self.flights: dict[str, Flight] = {}
        self.refused: dict[str, str] = {}
        self.restarted: list[str] = []
        self.down: dict[int, Exception] = {}
        for index in self.nodes:
            self.router.add(index, 0.01)
        self.policy.forgotten.clear()
        for index in self.nodes:
            request = Request(f"of {index}", 0.0, 8, 8)
            self.flights[request.id] = Flight(None, request, self.router.choose(request, index), tokens=[1, 2, 3])
        live = LiveFlights(self.flights, self, self.refuse)
        buffers = DeviceBuffers(self.nodes)
        sources = TokenSources(SourceActors(lambda index: None, 1, 0), live, buffers)
        sources.all[0].link.lose()  # There is no process that could make tokens.
        cluster: Any = SimpleNamespace(limits=lambda device_limits: LIMITS)
        self.recovery = Connected(cluster, self.router, live, sources, buffers, self.departed)
        self.recovery.fleet = self

    def refuse(self, flight: Flight, why: str) -> None:
        self.refused[flight.request.id] = why

    def departed(self, devices: Collection[int]) -> None:
        raise AssertionError

    def on_restart(self, actor: str) -> None:
        self.restarted.append(actor)

    def failed(self, times: int) -> None:
        """Let device 0 have failed so often in a row already, and fail again now."""
        self.nodes[0].backoff.failures = times

    def ran(self, *ends: Exception) -> None:
        """Let device 0 end with these, one after the other, and then run for ever."""
        coming = list(ends)

        async def run() -> None:
            if coming:
                raise coming.pop(0)
            await asyncio.Event().wait()

        self.nodes[0].device = SimpleNamespace(run=SimpleNamespace(remote=run))


class Connected(Recovery):
    """Connects a device to the threads that stand for its actors."""

    fleet: Fleet

    async def connect_once(self, node: Node) -> None:
        if node.index in self.fleet.down:
            raise self.fleet.down[node.index]
        node.calls.connect(*self.fleet.actors[node.index].addresses)


async def until(there: Callable[[], object]) -> None:
    async with asyncio.timeout(10.0):
        while not there():
            await asyncio.sleep(0.005)


@pytest.fixture
def made(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Fleet]:
    monkeypatch.setattr(sockets, "this_node", lambda: "here")
    folder = tmp_path_factory.mktemp("m")
    folder.chmod(0o700)
    return lambda devices: Fleet(folder, devices)


def play(fleet: Fleet, script: Callable[[], Awaitable[None]], amiss: bool = True) -> None:
    """Keep device 0, of which something is amiss, while a script runs."""

    async def run() -> None:
        for index, node in fleet.nodes.items():
            if index:
                node.calls.connect(*fleet.actors[index].addresses)
        kept = asyncio.create_task(fleet.recovery.keep(fleet.nodes[0], amiss))
        try:
            await script()
            assert not kept.done()
        finally:
            kept.cancel()
            for node in fleet.nodes.values():
                node.calls.close()

    asyncio.run(run())


@pytest.mark.parametrize("why", [ActorDiedError(), ConnectionResetError(), OSError(24, "No more files"), KeyError()])
def test_a_device_that_comes_back_soon_goes_on_from_the_token_that_its_client_has(
    made: Callable[[int], Fleet], monkeypatch: pytest.MonkeyPatch, why: Exception
) -> None:
    monkeypatch.setattr(recovery_module, "AMISS_S", 0.05)
    fleet = made(2)
    fleet.ran()
    fleet.down[0] = why

    async def script() -> None:
        await asyncio.sleep(0.1)
        assert not fleet.nodes[0].link.up
        fleet.down.clear()
        await until(lambda: fleet.actors[0].submitted)
        (request,) = fleet.actors[0].submitted
        assert (request.id, request.released) == ("of 0", 3)
        # Its scheduler has answered behind that, and what the device had of prompts is gone.
        await until(lambda: fleet.actors[0].limits)
        assert fleet.policy.forgotten == [0]
        assert fleet.nodes[0].state is State.SERVING and fleet.nodes[0].link.up
        assert fleet.flights["of 0"].device == 0 and not fleet.refused and not fleet.actors[1].submitted

    play(fleet, script)


def test_a_device_whose_run_ends_is_mended_each_time_and_told_of(made: Callable[[int], Fleet]) -> None:
    fleet = made(1)
    fleet.ran(ActorDiedError(), ActorDiedError())

    async def script() -> None:
        await until(lambda: len(fleet.actors[0].submitted) == 2)
        await until(lambda: fleet.nodes[0].link.up)
        assert fleet.restarted == ["device 0"] * 2 and not fleet.refused

    play(fleet, script, amiss=False)


def test_one_that_stays_away_has_its_requests_go_on_elsewhere_and_has_others_again_when_it_is_back(
    made: Callable[[int], Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery_module, "PATIENCE_S", 0.3)
    fleet = made(2)
    fleet.ran()
    fleet.down[0] = ConnectionResetError()

    async def script() -> None:
        await asyncio.sleep(0.1)
        assert fleet.flights["of 0"].device == 0 and fleet.nodes[0].state is State.SERVING
        await until(lambda: fleet.actors[1].submitted)
        (request,) = fleet.actors[1].submitted
        assert (request.id, request.released, request.kv_lost) == ("of 0", 3, True)
        assert fleet.nodes[0].state is State.LOST and not fleet.router.others_open(1)
        assert (fleet.router.in_flight(0), fleet.router.in_flight(1)) == (0, 2)
        fleet.down.clear()
        await until(lambda: fleet.nodes[0].state is State.SERVING)
        assert fleet.router.others_open(1) and not fleet.actors[0].submitted and not fleet.refused

    play(fleet, script)


def test_what_one_that_stays_away_drew_of_a_shared_tier_is_the_others(
    made: Callable[[int], Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery_module, "PATIENCE_S", 0.1)
    fleet = made(2)
    fleet.down[0] = ActorDiedError()
    assert [fleet.tier.lease(device, 0.0, 0.0) for device in (0, 1)] == [100.0, 50.0]

    async def script() -> None:
        await until(lambda: fleet.nodes[0].state is State.LOST)
        assert fleet.tier.lease(1, 0.0, 0.0) == 100.0

    play(fleet, script)


def test_one_that_is_not_even_tried_again_soon_has_them_go_on_elsewhere_at_once(made: Callable[[int], Fleet]) -> None:
    fleet = made(2)
    fleet.failed(6)  # With this failure it waits for four seconds.

    async def script() -> None:
        async with asyncio.timeout(2.0):
            await until(lambda: fleet.actors[1].submitted)
        assert fleet.nodes[0].state is State.LOST

    play(fleet, script)


@pytest.mark.parametrize("why", [ConnectionResetError(), ActorDiedError()])
def test_alone_it_keeps_its_requests_waiting_until_it_has_failed_eight_times_in_a_row(
    made: Callable[[int], Fleet], monkeypatch: pytest.MonkeyPatch, why: Exception
) -> None:
    """It has died once, and does not come up within its patience, again and again: it may be dead for good."""
    monkeypatch.setattr(recovery_module, "PATIENCE_S", 0.1)
    fleet = made(1)
    fleet.ran()
    fleet.down[0] = why

    async def script() -> None:
        await until(lambda: fleet.nodes[0].backoff.failures == 6)
        assert not fleet.refused
        await until(lambda: fleet.refused)
        assert fleet.nodes[0].backoff.failures == 8 and list(fleet.refused) == ["of 0"]
        assert "Device 0 has failed 8 times" in fleet.refused["of 0"]
        assert fleet.nodes[0].state is State.SERVING
        fleet.down.clear()
        await until(lambda: fleet.nodes[0].link.up)

    play(fleet, script)


@pytest.mark.slow
def test_one_that_has_failed_eight_times_has_no_requests_until_it_has_run_for_a_while(
    made: Callable[[int], Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery_module, "PROBATION_S", 1.0)
    monkeypatch.setattr(backoff, "MOST_S", 0.1)
    fleet = made(2)
    fleet.ran()
    fleet.failed(7)

    async def script() -> None:
        await until(lambda: fleet.nodes[0].link.up and fleet.nodes[0].state is State.LOST)
        await asyncio.sleep(0.3)
        assert fleet.nodes[0].state is State.LOST and fleet.flights["of 0"].device == 1
        await until(lambda: fleet.nodes[0].state is State.SERVING)
        assert fleet.router.others_open(1)

    play(fleet, script)


def test_one_that_is_lost_just_as_it_is_back_is_mended_no_more(made: Callable[[int], Fleet]) -> None:
    node = (fleet := made(1)).nodes[0]

    async def script() -> None:
        answered = asyncio.get_running_loop().create_future()
        vars(node.calls)["schedules"] = lambda limits: answered
        mending = asyncio.create_task(fleet.recovery.keep(node, amiss=True))
        await until(lambda: fleet.actors[0].submitted)
        # Its calls are closed and its loop is cancelled together.
        answered.set_exception(ConnectionResetError())
        mending.cancel()
        await asyncio.wait([mending], timeout=1.0)
        assert mending.cancelled()
        node.calls.close()

    asyncio.run(script())
