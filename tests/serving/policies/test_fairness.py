"""Does a key that asks for much leave to one that asks for little what is its due?"""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from serving.policies.fairness import FairQueue
from serving.scheduler.config import BY_TOKENS, SchedulerRules
from serving.types import Request

NOBODY: Counter[str] = Counter()


def queue() -> FairQueue:
    made = SchedulerRules(fairness=BY_TOKENS).queue(lambda _: 0.0)
    assert isinstance(made, FairQueue)
    return made


def request(id: str, key: str, at_s: float = 0.0) -> Request:
    return Request(id, at_s, 100, 50, key=key)


def serve_one(fair: FairQueue, tokens: int = 50) -> str:
    """One request from beginning to end; its key."""
    first = fair.first(0.0, NOBODY)
    assert first is not None
    fair.remove(first)
    fair.begin(first, 100)
    fair.serve(first, tokens)
    fair.end(first)
    return first.key


def test_a_flood_of_one_key_does_not_hold_up_another() -> None:
    fair = queue()
    for i in range(100):
        fair.push(request(f"a{i}", "a"))
    served = [serve_one(fair) for _ in range(10)]
    for i in range(5):
        fair.push(request(f"b{i}", "b", at_s=1.0))
    assert set(served) == {"a"}
    assert Counter(serve_one(fair) for _ in range(10)) == {"a": 5, "b": 5}


def test_having_been_idle_earns_no_credit() -> None:
    fair = queue()
    for i in range(40):
        fair.push(request(f"a{i}", "a"))
    for _ in range(20):
        serve_one(fair)
    for i in range(20):
        fair.push(request(f"b{i}", "b"))
    assert Counter(serve_one(fair) for _ in range(12))["b"] <= 7


def test_who_comes_first_to_an_idle_server_does_not_shut_out_those_served_before() -> None:
    fair = queue()
    for i in range(20):
        fair.push(request(f"a{i}", "a"))
    for _ in range(20):
        serve_one(fair)
    for key in "ba":
        for i in range(20, 40):
            fair.push(request(f"{key}{i}", key))
    assert Counter(serve_one(fair) for _ in range(12))["a"] >= 5


def test_who_has_longer_answers_has_fewer_of_them() -> None:
    fair = queue()
    for i in range(100):
        fair.push(request(f"a{i}", "a"))
        fair.push(request(f"b{i}", "b"))
    turns: Counter[str] = Counter()
    for _ in range(60):
        first = fair.first(0.0, NOBODY)
        assert first is not None
        turns[serve_one(fair, tokens=200 if first.key == "a" else 50)] += 1
    # 100 + 2 x 200 for one of a, 100 + 2 x 50 for one of b.
    assert abs(turns["b"] / turns["a"] - 2.5) < 0.3


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 400)), min_size=1, max_size=60))
def test_of_keys_that_always_wait_none_gets_ahead_by_more_than_one_request(of: list[tuple[str, int]]) -> None:
    fair = queue()
    for key in "abc":
        for i in range(len(of)):
            fair.push(request(f"{key}{i}", key))
    had = Counter(a=0.0, b=0.0, c=0.0)
    for _, tokens in of:
        key = serve_one(fair, tokens)
        had[key] += 100 + 2 * tokens
        assert max(had.values()) - min(had.values()) <= 100 + 2 * 400
