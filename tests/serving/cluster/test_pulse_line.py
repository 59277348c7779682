"""A part that has told of its socket is asked there, and through Ray whenever it does not answer."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from serving.cluster import actor_process, pulse_line
from serving.cluster.endpoints.rpc_endpoint import RpcEndpoint
from serving.cluster.pulse_line import PulseLine
from serving.cluster.streams import sockets
from serving.cluster.streams.wire import dial
from serving.cluster.supervision import heartbeat
from serving.cluster.supervision.heartbeat import Heartbeat
from serving.process.run_folder import hold
from tests.patience import until

HERE = "this node"


@pytest.fixture(autouse=True)
def one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (actor_process, sockets, heartbeat):
        monkeypatch.setattr(module, "this_node", lambda: HERE)
    monkeypatch.setattr("serving.cluster.endpoints.rpc_endpoint.this_node", lambda: HERE)


def live(folder: Path, told: Any) -> None:
    """Be an actor's process, 2.5 s late with something; tell where its socket is."""
    endpoint = RpcEndpoint("part", sockets.Address(HERE, str(folder / "edge")), [], lambda: 2.5)
    told.send(endpoint.pulse())
    signal.pause()


class Part:
    """An actor's process. `asked` counts the calls that go through Ray."""

    name, patience_s = "part", 1.0

    def __init__(self, folder: Path) -> None:
        mine, its = multiprocessing.get_context("fork").Pipe()
        self.child = multiprocessing.get_context("fork").Process(target=live, args=(folder, its), daemon=True)
        self.child.start()
        self.asked, self.heartbeat = 0, mine.recv()

    async def pulse(self) -> Heartbeat:
        self.asked += 1
        found: Heartbeat = self.heartbeat
        return found


@asynccontextmanager
async def a_part(folder: Path) -> AsyncIterator[tuple[Any, PulseLine]]:
    part, line = Part(hold(folder)), PulseLine()
    try:
        yield part, line
    finally:
        line.hang_up()
        part.child.kill()
        part.child.join()


def test_ray_is_asked_once_and_then_the_part_itself(tmp_path: Path) -> None:
    async def play() -> None:
        async with a_part(tmp_path / "run") as (part, line):
            heartbeats = [await line.heartbeat(part) for _ in range(5)]
            assert part.asked == 1
            assert {(each.process.pid, each.overdue_s) for each in heartbeats} == {(part.child.pid, 2.5)}

    asyncio.run(play())


def test_ray_is_asked_at_once_of_a_part_that_has_died(tmp_path: Path) -> None:
    async def play() -> None:
        async with a_part(tmp_path / "run") as (part, line):
            await line.heartbeat(part)
            part.child.kill()
            part.child.join()
            async with asyncio.timeout(pulse_line.ANSWER_S / 2):
                await line.heartbeat(part)
            assert part.asked == 2

    asyncio.run(play())


def test_ray_is_asked_of_a_part_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse_line, "ANSWER_S", 0.05)

    async def play() -> None:
        async with a_part(tmp_path / "run") as (part, line):
            await line.heartbeat(part)
            os.kill(part.child.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, part.child.pid, os.WSTOPPED)  # until then its thread may still answer
            await line.heartbeat(part)
            assert part.asked == 2

    asyncio.run(play())


def test_a_part_on_another_node_is_asked_by_ray_alone(tmp_path: Path) -> None:
    async def play() -> None:
        async with a_part(tmp_path / "run") as (part, line):
            part.heartbeat = part.heartbeat._replace(process=actor_process.ActorProcess("elsewhere", 1))
            for _ in range(3):
                await line.heartbeat(part)
            assert part.asked == 3

    asyncio.run(play())


def test_a_heartbeat_that_is_lost_takes_no_count_along(tmp_path: Path) -> None:
    endpoint = RpcEndpoint("part", sockets.Address(HERE, str(hold(tmp_path / "run") / "edge")), [])
    dial(Path(endpoint.address.path)).send(b"\xff")
    until(lambda: endpoint.pulse().dropped is not None)
    lost, next_one = endpoint.pulse(), endpoint.pulse()
    assert lost.dropped == next_one.dropped is not None and next_one.dropped.count == 1
