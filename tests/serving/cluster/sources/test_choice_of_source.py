"""Is a request made by the source that has least to do, and moved to another no more often than it gets on?"""

import asyncio

import pytest

from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.observer import EdgeObserver, LiveFlights
from serving.cluster.sources.replacements import SourceActors
from serving.cluster.sources.token_sources import TokenSources
from serving.flight import Flight
from serving.types import Request


def flight(id: str, **fields: object) -> Flight:
    return Flight(None, Request(id, 0.0, 8, 40), 0, **fields)  # type: ignore[arg-type]


def sources_of(loads: list[int], *flights: Flight) -> TokenSources:
    """Sources without processes, which have so many requests each, beside these."""
    live = LiveFlights({each.request.id: each for each in flights}, EdgeObserver(), lambda flight, why: None)
    made = TokenSources(SourceActors(lambda index: None, len(loads), 0), live, DeviceBuffers({}))
    for source, load in zip(made.all, loads, strict=True):
        for n in range(load):
            source.warm_up(f"{source.index}-{n}", 0, 1)
    return made


def chosen(made: TokenSources, **fields: object) -> int | None:
    each = flight("a", **fields)
    made.resume(each, 0)
    return each.source


def test_a_request_is_made_by_the_source_that_has_least_to_do_of_those_that_are_up() -> None:
    made = sources_of([2, 0, 1])
    assert chosen(made) == 1
    made.all[1].link.lose()
    assert chosen(made) == 2
    for each in (made.all[0], made.all[2]):
        each.link.lose()
    assert chosen(made) == 1  # of none that is up, likewise


@pytest.mark.parametrize(("rank", "source"), [(0, 0), (2, 2), (5, 2), (6, 0)])
def test_one_that_names_a_rank_is_made_by_that_source(rank: int, source: int) -> None:
    assert chosen(sources_of([3, 0, 1]), rank=rank) == source


def test_one_that_has_a_source_keeps_it() -> None:
    assert chosen(sources_of([9, 0]), source=0) == 0


def test_requests_of_a_source_that_was_killed_are_shared_out_and_move_once_until_they_get_on() -> None:
    flights = [flight(id, source=0) for id in "abc"]

    async def play() -> None:
        made = sources_of([0, 1, 0], *flights)
        made.all[0].link.lose()
        made.move(flights)
        assert [each.source for each in flights] == [2, 1, 2] and all(each.moved for each in flights)
        # Another one is killed: who has not got on since may be why.
        made.all[2].link.lose()
        made.move([flights[0], flights[2]])
        assert [each.source for each in flights] == [2, 1, 2]
        flights[0].moved = False
        made.move([flights[0], flights[2]])
        assert [each.source for each in flights] == [1, 1, 2]
        await asyncio.sleep(0)
        made.stop()

    asyncio.run(play())


def test_where_no_other_is_up_they_wait_and_move_when_one_is() -> None:
    waiting = flight("a", source=0)

    async def play() -> None:
        made = sources_of([0, 0], waiting)
        for each in made.all:
            each.link.lose()
        made.move([waiting])
        assert (waiting.source, waiting.moved) == (0, False)
        made.all[1].link.up = True
        made.relieve()
        assert waiting.source == 0  # its source was not ended from outside: it may be the cause
        made.all[0]._from_outside = True
        made.relieve()
        assert (waiting.source, waiting.moved) == (1, True)
        await asyncio.sleep(0)
        made.stop()

    asyncio.run(play())
