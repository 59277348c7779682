"""Are calls on the board from their arrival until their requests must be with a scheduler, and no longer?"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from serving.call import Call
from serving.clock import WallClock
from serving.cluster.streams.arrival_board import NONE, PLACES, ArrivalBoard
from serving.edge import arrivals as arrivals_module
from serving.edge.arrivals import Arrivals
from serving.types import NEVER

CLOCK = WallClock(0.0)


async def until(there: Callable[[], bool]) -> None:
    async with asyncio.timeout(10.0):
        while not there():
            await asyncio.sleep(0.001)


def test_devices_read_the_earliest_instant_that_any_edge_has_posted(tmp_path: Path) -> None:
    core, edge, device = (ArrivalBoard(tmp_path) for _ in range(3))
    assert device.earliest_s(0.0) == NEVER
    core.post(0, 3.25)
    edge.post(PLACES - 1, 2.5)
    assert device.earliest_s(-1.0) == 2.5
    # An edge that was killed leaves its instant there.
    assert device.earliest_s(2.5) == 3.25
    edge.post(PLACES, 1.0)  # There is no place for it: nobody waits, nothing breaks.
    edge.post(PLACES - 1, NONE)
    assert device.earliest_s(0.0) == 3.25
    core.post(0, NONE)
    assert device.earliest_s(0.0) == NEVER


def test_a_call_is_posted_until_it_was_sent_or_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals_module, "LONGEST_AWAITED_S", 60.0)  # so that no other end comes first
    posted = list[float]()

    async def main() -> None:
        arrivals = Arrivals(CLOCK, posted.append)
        now_s = CLOCK.now()
        sent, ended = Call(now_s - 0.002), Call(now_s - 0.001)
        arrivals.begin(ended)
        arrivals.begin(sent)
        assert posted == [ended.arrival_s, sent.arrival_s]
        assert sent.posted_s is not None and now_s <= sent.posted_s <= CLOCK.now()
        arrivals.sent(sent)
        await until(lambda: len(posted) == 3)
        assert posted[2:] == [ended.arrival_s]
        ended.end(None)
        sent.end(None)

    asyncio.run(main())
    assert posted[3:] == [NONE]


def test_nobody_waits_long_for_a_call_nor_for_one_that_came_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals_module, "LONGEST_AWAITED_S", 0.5)
    posted = list[float]()

    async def main() -> None:
        arrivals = Arrivals(CLOCK, posted.append)
        old, lasting = Call(CLOCK.now() - 1.0), Call(CLOCK.now())
        arrivals.begin(old)
        assert posted == [] and old.posted_s is None
        arrivals.begin(lasting)
        assert posted == [lasting.arrival_s]
        await until(lambda: len(posted) == 2)
        assert posted[1:] == [NONE] and CLOCK.now() >= lasting.arrival_s + 0.5

    asyncio.run(main())
