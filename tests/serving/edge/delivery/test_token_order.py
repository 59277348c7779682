"""Does an edge hand on each token of a request once, in order, whoever sends it when?"""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from serving.edge.delivery.token_order import MOST_HELD, MOST_LAST, LastTokens, TokenOrder
from serving.types import FAILED, Chunk

STOP, ABORT = 0, 2


def begun(*ids: str) -> TokenOrder:
    order = TokenOrder()
    for id in ids or ("a",):
        order.begin(id)
    return order


def tokens_of(chunks: list[Chunk]) -> list[int]:
    return [token for chunk in chunks for token in chunk.tokens]


@given(st.data())
def test_whatever_comes_twice_or_overtakes_goes_on_once_and_in_order(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 30))
    last = Chunk("a", count - 1, [count - 1], STOP)
    alone = [Chunk("a", position, [position]) for position in range(count - 1)]
    runs = st.tuples(st.integers(0, count - 1), st.integers(1, count)).map(
        lambda run: Chunk("a", run[0], list(range(run[0], min(run[0] + run[1], count))))
    )
    sent = data.draw(st.permutations([*alone, last, *data.draw(st.lists(runs, max_size=5))]))
    order, got = begun("a", "b"), list[Chunk]()
    for chunk in sent:
        got += order.take([chunk, Chunk("b", 0, [7])])
    mine = [chunk for chunk in got if chunk.request_id == "a"]
    assert tokens_of(mine) == list(range(count))
    position = 0
    for chunk in mine:
        assert chunk.first == position
        position += len(chunk.tokens)
    assert [chunk.finish for chunk in mine if chunk.finish is not None] == [STOP] and mine[-1].finish == STOP
    assert tokens_of([chunk for chunk in got if chunk.request_id == "b"]) == [7]
    assert order.missing(0.0) == []


def test_what_is_lost_is_missing_and_comes_later() -> None:
    order = begun()
    assert tokens_of(order.take([Chunk("a", 0, [0]), Chunk("a", 2, [2]), Chunk("a", 4, [4], STOP)])) == [0]
    assert order.missing(0.0) == [("a", 1)] and order.missing(60.0) == []
    assert tokens_of(order.take([Chunk("a", 1, [1])])) == [1, 2]
    assert order.missing(0.0) == [("a", 3)]
    # All that there is, its last token with it.
    ended = order.take([Chunk("a", 3, [3, 4])])
    assert tokens_of(ended) == [3, 4] and ended[-1].finish == STOP
    assert order.missing(0.0) == [] and order.take([Chunk("a", 5, [5])]) == []


def test_an_end_with_an_error_waits_for_nothing() -> None:
    for end in (Chunk("a", 9, [], FAILED, "Why"), Chunk("a", 0, [], ABORT)):
        order = begun()
        order.take([Chunk("a", 0, [0]), Chunk("a", 2, [2])])
        assert order.take([end]) == [end]
        assert order.missing(0.0) == []


def test_an_end_without_a_token_waits_for_those_before_it() -> None:
    order, end = begun(), Chunk("a", 2, [], STOP)
    assert tokens_of(order.take([Chunk("a", 0, [0]), end])) == [0] and order.missing(0.0) == [("a", 1)]
    assert order.take([Chunk("a", 1, [1])]) == [Chunk("a", 1, [1]), end]


def test_of_who_has_left_nothing_goes_on_and_the_last_tokens_are_told() -> None:
    order = begun("a", "b")
    order.take([Chunk("b", 1, [1]), *(Chunk("a", position, [position]) for position in range(MOST_LAST + 3))])
    assert order.end(["a", "b", "never here"]) == [LastTokens("a", 3, list(range(3, MOST_LAST + 3)))]
    assert order.take([Chunk("a", 0, [0]), Chunk("b", 0, [0])]) == [] and order.missing(0.0) == []
    assert order.end(["a"]) == []


def test_behind_a_gap_wait_all_that_follow_each_other() -> None:
    order, count = begun(), 8 * MOST_HELD
    assert order.take(Chunk("a", position, [position]) for position in range(1, count)) == []
    assert tokens_of(order.take([Chunk("a", 0, [0])])) == list(range(count))
    assert order.missing(0.0) == []


def test_behind_a_gap_wait_no_more_than_a_few_with_gaps_between_them() -> None:
    order, count = begun(), 4 * MOST_HELD
    far = [Chunk("a", position, [position]) for position in range(1, count, 2)]
    last = Chunk("a", count, [0], STOP)
    assert order.take([*far, last]) == []
    even = [Chunk("a", position, [position]) for position in range(0, count, 2)]
    assert tokens_of(order.take(even)) == list(range(2 * MOST_HELD + 1))
    assert order.missing(0.0) == [("a", 2 * MOST_HELD + 1)]
    rest = order.take([Chunk("a", 2 * MOST_HELD + 1, list(range(2 * MOST_HELD + 1, count)))])
    assert rest[-1] == msgspec.structs.replace(last)


def test_of_who_has_got_no_further_for_some_looks_each_is_told_once_in_so_many() -> None:
    order, told = begun("still", "slow", "quick", "held", "over"), list[list[tuple[str, int]]]()
    order.take([Chunk("still", 0, [0]), Chunk("held", 1, [1])])
    for look in range(12):
        order.take([Chunk("quick", look, [look])])
        if look % 3 == 0:
            order.take([Chunk("slow", look // 3, [look])])
        if look == 2:
            order.take([Chunk("over", 0, [0], STOP)])
        told.append(order.quiet(4))
    quiet = [("still", 1), ("held", 0)]
    assert told == [quiet if look in (4, 8) else [] for look in range(12)]


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 5))
def test_a_request_is_told_of_only_after_so_many_looks_without_a_token(tokens: list[int], looks: int) -> None:
    """`tokens`: how many come before each look."""
    order, position, still, since = begun(), 0, -1, 0
    for count in tokens:
        order.take([Chunk("a", position, [0] * count)] if count else [])
        position += count
        still, since = (still + 1, since + 1) if still >= 0 and not count else (0, 0)
        told = order.quiet(looks)
        assert told == ([("a", position)] if since == looks else [])
        since %= looks
