"""Are calls on the board from their arrival until their requests must be with a scheduler, and no longer?"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from serving.call import Call
from serving.clock import WallClock
from serving.cluster.streams.arrival_board import NONE, PLACES, ArrivalBoard
from serving.device.live_driver import LEAP_S
from serving.edge import arrivals as arrivals_module
from serving.edge.arrivals import Arrivals
from serving.edge.backlog import BEHIND_S, Backlog
from serving.types import NEVER, Release

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


def test_devices_are_told_that_an_edge_is_behind_once_tokens_go_out_late_and_for_a_while(tmp_path: Path) -> None:
    core, device = ArrivalBoard(tmp_path), ArrivalBoard(tmp_path)
    clock = WallClock(0.0, speed=2.0)
    backlog = Backlog(clock, core.post_behind)
    backlog.on_release(Release(0, 1.0 + 2.0 * LEAP_S, [], ends_s=[1.0, 1.0 + 2.0 * LEAP_S]), [])
    backlog.on_delivery(0, 1.9 * LEAP_S)  # of a leap, on time otherwise
    assert not device.is_behind(clock.now())
    backlog.on_delivery(1, 1.1 * LEAP_S)
    assert device.is_behind(clock.now()) and not device.is_behind(clock.now() + 2.0 * BEHIND_S)
    assert device.earliest_s(0.0) == NEVER  # That is no arrival.


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
