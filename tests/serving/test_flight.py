"""What the edge takes from a release: each token once, in order, whatever a device sends again."""

import pytest

from serving.flight import Flight, gapped, take, unseen
from serving.types import FAILED, NEVER, Chunk, Request


def flight(id: str, tokens: list[int]) -> Flight:
    return Flight(core_request=None, request=Request(id, 0.0, 8, 16), device=0, tokens=tokens)


def chunks(id: str, positions: list[int]) -> list[Chunk]:
    return [Chunk(id, position, [position]) for position in positions]


@pytest.mark.parametrize(
    ("has", "sent", "new"),
    [
        (0, [0], [0]),
        (3, [3], [3]),
        (3, [2], []),
        (3, [4], []),
        # Several overdue tokens in one release, some of which the client has.
        (3, [3, 4, 5], [3, 4, 5]),
        (3, [1, 2, 3, 4], [3, 4]),
    ],
)
def test_what_a_client_has_not_seen(has: int, sent: list[int], new: list[int]) -> None:
    flights = {"a": flight("a", list(range(has))), "b": flight("b", [])}
    news = unseen(flights, [*chunks("a", sent), *chunks("b", [0]), *chunks("gone", [0])])
    assert [chunk.first for f, chunk in news if f.request.id == "a"] == new
    assert [f.request.id for f, _ in news].count("b") == 1
    assert len(news) == len(new) + 1


def test_a_first_token_says_what_of_its_prompt_was_cached() -> None:
    begun = flight("a", [])
    begun.shareable, begun.cached = 64, 48
    news = unseen({"a": begun, "b": flight("b", [])}, [*chunks("a", [0, 1]), *chunks("b", [0])])
    assert [(chunk.cached, chunk.created) for _, chunk in news] == [(48, 16), (0, 0), (0, 0)]


def test_a_flight_goes_on_where_its_client_is_and_knows_the_gaps_between_releases() -> None:
    a = flight("a", [])
    assert a.take([5], 1.0) is None
    assert a.take([6, 7], 1.5) == 0.5
    assert (a.resumed.released, a.first_s, a.last_s) == (3, 1.0, 1.5)


def test_a_flight_that_moves_is_sent_again_to_whatever_device_it_comes_to() -> None:
    a = flight("a", [5])
    a.sent_to = (1, 0)
    a.move(0)
    a.move(1)
    assert a.sent_to is None and a.resumed.kv_lost


def test_a_failure_is_no_first_token_and_no_output() -> None:
    none, some = flight("none", []), flight("some", [])
    take(0, [(some, Chunk("some", 0, [5]))], 1.0)
    news = take(0, [(none, Chunk("none", 0, [], FAILED)), (some, Chunk("some", 1, [], FAILED))], 2.0)
    assert (news.tokens, news.gaps_s, news.first) == (0, {}, [])
    assert (none.first_s, none.ttft_s, some.last_s) == (None, NEVER, 1.0)


def test_no_token_comes_before_the_one_before_it() -> None:
    flight = Flight(None, Request("r", 1.0, 10, 8), 0)
    assert flight.take([1], 2.0) is None
    # From a device that takes over, and was not yet as far.
    assert flight.take([2], 1.7) == 0.0
    assert (flight.first_s, flight.last_s) == (2.0, 2.0)


def test_a_gap_is_what_a_client_lacks_before_the_chunks_that_come() -> None:
    flights = {"a": flight("a", [1, 2]), "b": flight("b", [1, 2]), "c": flight("c", [1, 2])}
    came = [*chunks("a", [2, 3]), *chunks("b", [3, 4]), *chunks("c", [0, 1]), *chunks("gone", [7])]
    assert gapped(flights, came) == [flights["b"]]
