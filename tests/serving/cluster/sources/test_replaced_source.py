"""Is a token source that dies replaced, whatever is in the way of that at first?"""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError

from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.observer import EdgeObserver, LiveFlights
from serving.cluster.sources.manager import SourceManager
from serving.cluster.sources.replacements import SourceActors


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
