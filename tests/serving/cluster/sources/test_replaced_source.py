"""Is a token source that dies replaced, whatever is in the way of that at first?"""

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from serving.cluster import cluster
from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.observer import EdgeObserver, LiveFlights
from serving.cluster.sources import manager
from serving.cluster.sources.manager import SourceManager
from serving.cluster.sources.replacements import SourceActors
from serving.flight import Flight
from serving.process import background
from serving.scenario.scenario import Scenario
from serving.types import Request


async def until_up(source: SourceManager) -> None:
    """Wait until a source is up, and stop looking after it."""
    async with asyncio.timeout(5.0):
        while not source.link.up:
            await asyncio.sleep(0.005)
    source.stop()


@pytest.mark.parametrize("why", [ActorDiedError(), OSError(24, "No more files"), KeyError()])
def test_one_that_could_not_be_connected_is_tried_again(monkeypatch: pytest.MonkeyPatch, why: Exception) -> None:
    monkeypatch.setattr("ray.kill", lambda actor: None)
    ends, failures = [ActorDiedError()], [why]

    async def run() -> None:
        if ends:
            raise ends.pop()
        await asyncio.Event().wait()

    async def connect() -> None:
        if failures:
            raise failures.pop()

    actor = SimpleNamespace(run=SimpleNamespace(remote=run))
    nobody: Any = SimpleNamespace(move=lambda flights: None, relieve=lambda: None, follow=lambda: None)
    live = LiveFlights({}, EdgeObserver(), lambda flight, why: None)

    async def play() -> None:
        source = SourceManager(0, SourceActors(lambda index: actor, 1, 0), live, DeviceBuffers({}), nobody)
        source.connect = connect  # type: ignore[method-assign]
        source.start()
        async with asyncio.timeout(5.0):
            while ends or failures or not source.link.up:
                await asyncio.sleep(0.005)
        source.stop()

    asyncio.run(play())


def test_the_loop_goes_on_while_ray_does_not_say_on_which_node_another_one_may_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its GCS is away: Ray asks it again and again, and returns once it is back."""
    there, placed, answers = ["a" * 56], list[str](), threading.Event()
    answers.set()

    def nodes() -> list[dict[str, Any]]:
        answers.wait(5.0)
        return [{"NodeID": each, "Alive": True, "Resources": {}} for each in ("9" * 56, *there)]

    def options(scheduling_strategy: Any, **_: object) -> Any:
        placed.append(scheduling_strategy.node_id)
        return SimpleNamespace(remote=lambda *arguments: SimpleNamespace(run=SimpleNamespace(remote=run)))

    async def run() -> None:
        if len(placed) == 1:
            raise ActorDiedError
        await asyncio.Event().wait()

    async def connect() -> None:
        pass

    monkeypatch.setattr("ray.kill", lambda actor: None)
    monkeypatch.setattr("ray.nodes", nodes)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 1})
    monkeypatch.setattr(cluster, "this_node", lambda: there[0])
    monkeypatch.setattr(cluster, "TokenSource", SimpleNamespace(options=options))
    edge: Any = None
    actors = cluster.start_sources(Scenario(), 1024, False, edge, {})
    nobody: Any = SimpleNamespace(move=lambda flights: None, relieve=lambda: None, follow=lambda: None)
    live = LiveFlights({}, EdgeObserver(), lambda flight, why: None)

    async def play() -> None:
        source = SourceManager(0, actors, live, DeviceBuffers({}), nobody)
        source.connect = connect  # type: ignore[method-assign]
        answers.clear()
        source.start()
        began_s = time.monotonic()
        await asyncio.sleep(0.2)
        assert time.monotonic() - began_s < 4.0 and len(placed) == 1 and not source.link.up
        there[:] = ["b" * 56]
        answers.set()
        await until_up(source)

    asyncio.run(play())
    assert placed == ["a" * 56, "b" * 56]


def test_progress_is_watched_again_after_an_error_that_nobody_expects(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(manager, "LOOK_S", 0.005)
    monkeypatch.setattr(background, "AGAIN_S", 0.005)
    failures = [ValueError("not a list")]

    async def run() -> None:
        await asyncio.Event().wait()

    async def beyond_known() -> list[str]:
        if failures:
            raise failures.pop()
        return ["a"]

    remotes = {name: SimpleNamespace(remote=call) for name, call in (("run", run), ("beyond_known", beyond_known))}
    nobody: Any = SimpleNamespace(move=lambda flights: None, relieve=lambda: None, follow=lambda: None)
    flight = Flight(None, Request("a", 0.0, 8, 8), 0, source=0, moved=True)
    live = LiveFlights({"a": flight}, EdgeObserver(), lambda flight, why: None)

    async def play() -> None:
        actors = SourceActors(lambda index: SimpleNamespace(**remotes), 1, 0)
        source = SourceManager(0, actors, live, DeviceBuffers({}), nobody)
        source.link.up = True
        source.question()
        source.start()
        async with asyncio.timeout(5.0):
            while flight.moved:
                await asyncio.sleep(0.005)
        source.stop()

    asyncio.run(play())
    assert "begins again" in caplog.text and "not a list" in caplog.text
