"""Are releases that were packed ahead those that would have been made in time, whatever comes between?"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from serving.clock import VirtualClock, WallClock
from serving.cluster.actor_proxies import LATE_S, ReleaseSink
from serving.cluster.release_packer import ReleasePacker
from serving.cluster.streams import sockets
from serving.cluster.streams.sockets import Address, Host
from serving.cluster.streams.stream import Inbox
from serving.device.pending_steps import PendingSteps
from serving.types import DroppedMessages, Release, Request
from tests.examples import examples
from tests.serving.device.test_engine import Bench

PATIENCE_S = 20.0
ENDED = Release(0, 0.0, [], unknown=["the last"])


@pytest.fixture(scope="module", autouse=True)
def one_node() -> Iterator[None]:
    """Say that all is on one node: no Ray is needed to tell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sockets, "this_node", lambda: "here")
        yield


class Course:
    """What happens to a device: the lengths of its answers, before which of its steps the condition changes to what it
    was, the first request goes, or the device waits; how late each step is; and whether they are packed."""

    def __init__(self, outputs: list[int], changed: int, gone: int, waits: int, late_real_s: float) -> None:
        self.outputs, self.changed, self.gone, self.waits = outputs, changed, gone, waits
        # A device that is late sends releases together.
        self.late_real_s, self.began_unix_s = late_real_s, time.time() + (-1e6 if late_real_s > LATE_S else 1e6)

    def run(self, inbox: Address, packed: bool) -> None:
        """Send the releases of all steps to this inbox."""
        bench = Bench(VirtualClock(), [Request(str(id), 0.0, 100, output) for id, output in enumerate(self.outputs)])
        engine, sink = bench.driver.engine, ReleaseSink(inbox, WallClock(self.began_unix_s))
        engine.sink = sink
        engine.packer = ReleasePacker(bench.tokens, sink) if packed else None
        made = 0
        while (batch := engine.plan(engine.at_s)).ids:
            steps = PendingSteps(engine, batch, leaps=False)
            going = True
            while going:
                self._happen(bench, steps, made)
                steps.make(self.late_real_s * (made % 3))
                made += 1
                # The news of who has gone comes two steps later.
                going = steps.advance() and made != self.gone + 2
        sink(ENDED)
        sink.flush_all()

    def _happen(self, bench: Bench, steps: PendingSteps, made: int) -> None:
        engine = bench.driver.engine
        if made == self.changed:
            steps.reprice(engine.at_s + 0.3 * (steps.end_s - engine.at_s))
        if made == self.gone:
            bench.tokens.close("0")
            bench.scheduler.abort("0")
        if made == self.waits:
            engine.at_s += 5.0


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    *[st.integers(-1, 40)] * 3,
    st.sampled_from([0.0, 1e-4, 2 * LATE_S]),
)
@example([40, 40], -1, 9, -1, 0.0)
@example([40, 40], 5, -1, 9, 1e-4)
@examples(25)
def test_packed_releases_are_those_made_in_time(
    tmp_path_factory: pytest.TempPathFactory, outputs: list[int], changed: int, gone: int, waits: int, late_s: float
) -> None:
    course = Course(outputs, changed, gone, waits, late_s)
    first, second = (received(course, tmp_path_factory.mktemp("r"), packed) for packed in (False, True))
    assert first and second == first


def received(course: Course, folder: Path, packed: bool) -> list[Release]:
    async def run() -> list[Release]:
        inbox: Inbox[list[Release]] = Inbox(list[Release], folder / "here", "edge", Host("here"))
        releases = list[Release]()
        inbox.start(releases.extend, _fail)
        try:
            course.run(inbox.address, packed)
            async with asyncio.timeout(PATIENCE_S):
                while ENDED not in releases:
                    await asyncio.sleep(0.001)
            return [each for each in releases if each != ENDED]
        finally:
            inbox.close()

    return asyncio.run(run())


def _fail(dropped: DroppedMessages) -> None:
    pytest.fail(dropped.why)
