"""The buffers between vLLM and a device: nothing is lost, repeated or out of order, whatever is dry or sent twice."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from serving.device.token_buffer import TokenBuffer, TokenRows
from serving.types import FAILED, Chunk

LAST = 1


def chunks(count: int, first: int = 0) -> list[Chunk]:
    """A request's tokens from position `first` to the end of its `count`."""
    return [Chunk("r", i, [100 + i], finish=LAST if i == count - 1 else None) for i in range(first, count)]


def test_tokens_come_out_in_the_order_in_which_they_came_in() -> None:
    tokens = TokenBuffer()
    tokens.open("r")
    assert tokens.push(chunks(3)) == []
    assert [tokens.take({"r": 1})[0][0].tokens for _ in range(3)] == [[100], [101], [102]]


def test_a_dry_buffer_is_an_underrun_that_is_paid_when_the_token_comes() -> None:
    tokens = TokenBuffer()
    tokens.open("r")
    assert tokens.take({"r": 1}) == ([], 1)
    assert tokens.owed() == 1
    assert [chunk.first for chunk in tokens.push(chunks(2))] == [0]
    assert tokens.owed() == 0
    assert tokens.take({"r": 1})[1] == 0


def test_a_failure_ends_a_request_whatever_token_it_is_told_of() -> None:
    """vLLM may refuse a request as a source that has restarted begins it again, which knows none of its tokens then."""
    tokens = TokenBuffer()
    tokens.open("r")
    tokens.push(chunks(9)[:3])
    assert tokens.take({"r": 4}) == (chunks(9)[:3], 1)
    failed = Chunk("r", 0, [], FAILED, "refused")
    assert tokens.push([failed]) == [failed]
    assert tokens.take({"r": 1}) == ([], 0)


def test_a_closed_request_takes_nothing_more() -> None:
    tokens = TokenBuffer()
    tokens.open("r")
    tokens.close("r")
    assert tokens.push(chunks(2)) == []
    assert tokens.take({"r": 1}) == ([], 0)


def test_a_request_that_goes_on_elsewhere_begins_where_it_was() -> None:
    tokens = TokenBuffer()
    tokens.open("r", position=2)
    tokens.push(chunks(4)[:2])
    assert tokens.held() == {"r": (2, [])}
    tokens.push(chunks(4, first=2))
    assert tokens.held() == {"r": (2, [102, 103])}


def test_who_has_had_nothing_yet_holds_up_nobody_who_has() -> None:
    tokens = TokenBuffer()
    for id in ("r", "grammar"):
        tokens.open(id, 3)
    tokens.take({"grammar": 90, "r": 5})
    assert tokens.owed() == 90  # as of a source that is behind with all
    tokens.push([Chunk("r", 3, [7])])
    assert tokens.owed() == 4


def test_rows_end_before_anybody_s_last_token_and_with_any_change() -> None:
    def begun() -> tuple[TokenBuffer, TokenRows]:
        tokens = TokenBuffer()
        for id, count in (("r", 5), ("s", 3)):
            tokens.open(id)
            tokens.push([Chunk(id, i, [i], finish=LAST if i == count - 1 else None) for i in range(count)])
        return tokens, tokens.rows(["r", "s"], 9)

    tokens, rows = begun()
    assert [[chunk.request_id for chunk in row] for row in rows.rows] == [["r", "s"]] * 2
    assert [tokens.take_row(rows) for _ in range(3)] == [True, True, False]
    assert tokens.held() == {"r": (2, [2, 3, 4]), "s": (2, [2])}
    changes: list[Callable[[TokenBuffer], object]] = [
        lambda tokens: tokens.open("t"),
        lambda tokens: tokens.close("s"),
        lambda tokens: tokens.take({"r": 1}),
        lambda tokens: tokens.rows(["s"], 1),
    ]
    for change in changes:
        tokens, rows = begun()
        assert tokens.take_row(rows)
        change(tokens)
        assert not tokens.take_row(rows)
    assert tokens.rows(["r", "unknown"], 9).rows == []


@given(
    st.integers(1, 20),
    st.lists(st.one_of(st.sampled_from(["take", "rows", "row", "look"]), st.integers(0, 19)), max_size=60),
)
def test_every_token_comes_out_once_and_in_order(count: int, acts: list[object]) -> None:
    tokens = TokenBuffer()
    tokens.open("r")
    everything, out, sent = chunks(count), list[Chunk](), 0
    rows = tokens.rows(["r"], 3)
    for act in [*acts, *range(count), *["take"] * count]:
        if act == "take":
            out += tokens.take({"r": 1})[0]
        elif act == "rows":
            rows = tokens.rows(["r"], 3)
        elif act == "row":
            out += rows.rows[rows.taken - 1] if tokens.take_row(rows) else []
        elif act == "look" and (held := tokens.held()):
            assert held["r"] == (len(out), [100 + i for i in range(len(out), sent)])
        elif isinstance(act, int):
            # Sent again from anywhere that was sent already, as after a restart, or the next one.
            first = min(act, sent)
            sent = max(sent, min(first + 1, count))
            out += tokens.push(everything[first : first + 1])
    assert [token for chunk in out for token in chunk.tokens] == [100 + i for i in range(count)]
