"""Does a device that is late send its steps together, in order, and one that is on time each at once?"""

import asyncio
import time
from pathlib import Path

import pytest

from serving.clock import WallClock
from serving.cluster.actor_proxies import LATE_S, MAX_WAITING, ReleaseSink
from serving.cluster.streams import sockets
from serving.cluster.streams.sockets import Host
from serving.cluster.streams.stream import Inbox
from serving.types import Chunk, DroppedMessages, Release, StepRecord

PATIENCE_S = 10.0
STEP = StepRecord(0, "ar", "decode", 0.0, 0.01, 1, 1, (0.01,), (1e6, 2e6), 10, 4, 0, 0, 100, 0, 0)


@pytest.fixture(autouse=True)
def one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say that all is on one node: no Ray is needed to tell."""
    monkeypatch.setattr(sockets, "this_node", lambda: "here")


class Edge:
    """An inbox and the messages that came, each as the first tokens of its releases; and a sink that sends to it."""

    def __init__(self, folder: Path) -> None:
        self.clock = WallClock(time.time())
        self._inbox: Inbox[list[Release]] = Inbox(list[Release], folder / "here", "edge", Host("here"))
        self._messages = list[list[int]]()
        self._inbox.start(lambda releases: self._messages.append([_token(each) for each in releases]), self._fail)
        self.sink = ReleaseSink(self._inbox.address, self.clock)

    def release(self, token: int, late_s: float, step: bool = True, chunks: bool = True) -> None:
        at_s = self.clock.now() - late_s
        chunk = Chunk("a", token, [token])
        self.sink(Release(0, at_s, [chunk] if chunks else [], record=STEP if step else None))

    async def messages(self, tokens: int) -> list[list[int]]:
        """Return the messages once so many releases have come."""
        async with asyncio.timeout(PATIENCE_S):
            while sum(map(len, self._messages)) < tokens:
                await asyncio.sleep(0.001)
        return self._messages

    def close(self) -> None:
        self._inbox.close()

    def _fail(self, dropped: DroppedMessages) -> None:
        pytest.fail(dropped.why)


def _token(release: Release) -> int:
    return release.chunks[0].tokens[0] if release.chunks else -1


def test_steps_on_time_go_out_one_by_one(tmp_path: Path) -> None:
    async def run() -> None:
        edge = Edge(tmp_path)
        for token in range(3):
            edge.release(token, late_s=0.0)
        assert await edge.messages(3) == [[0], [1], [2]]
        edge.close()

    asyncio.run(run())


def test_late_steps_go_out_together_and_at_the_latest_before_a_wait(tmp_path: Path) -> None:
    async def run() -> None:
        edge = Edge(tmp_path)
        edge.release(0, late_s=1.0)
        # From here on the last message was sent just now, however slow this machine is.
        edge.sink._sent_s = time.monotonic() + PATIENCE_S
        for token in (1, 2, 3):
            edge.release(token, late_s=1.0)
        edge.sink.flush()
        edge.sink.flush()
        edge.sink._sent_s = time.monotonic() + PATIENCE_S
        edge.release(4, late_s=1.0)
        # Tokens that come by themselves, overdue, wait for nothing, and nothing that was made before them does.
        edge.release(5, late_s=1.0, step=False)
        edge.sink._sent_s = time.monotonic() - 2 * LATE_S
        edge.release(6, late_s=1.0)
        assert await edge.messages(7) == [[0], [1, 2, 3], [4, 5], [6]]
        edge.close()

    asyncio.run(run())


def test_no_more_wait_than_a_few_and_steps_without_tokens_for_some(tmp_path: Path) -> None:
    async def run() -> None:
        edge = Edge(tmp_path)
        edge.sink._sent_s = time.monotonic() + PATIENCE_S
        for token in range(MAX_WAITING):
            edge.release(token, late_s=1.0)
        edge.release(0, late_s=0.0, chunks=False)
        edge.sink.flush()
        edge.release(7, late_s=0.0)
        messages = await edge.messages(MAX_WAITING + 2)
        assert messages == [list(range(MAX_WAITING)), [-1, 7]]
        # The step of somebody who has left, after which nobody comes.
        edge.release(0, late_s=0.0, chunks=False)
        edge.sink.flush_all()
        assert (await edge.messages(MAX_WAITING + 3))[2:] == [[-1]]
        edge.close()

    asyncio.run(run())
