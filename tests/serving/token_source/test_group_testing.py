"""Group testing: whoever crashes the engine is found, and nobody else is."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from serving.token_source.group_testing import MOST_INQUIRIES, Trials

REQUESTS = [f"request-{n}" for n in range(24)]


def play(requests: list[str], crashes: Callable[[set[str]], bool], most: int = 2000) -> list[str]:
    """Run requests, each for eight steps, all at once unless they are tried, until all are done or condemned; the
    condemned."""
    trials, condemned = Trials(), list[str]()
    left = dict.fromkeys(requests, 8)
    for _ in range(most):
        running = [id for id in left if trials.allowed is None or id in trials.allowed]
        if not running:
            return condemned
        if crashes(set(running)):
            if culprit := trials.crash(reversed(running)):
                condemned.append(culprit)
                del left[culprit]
            continue
        for id in running:
            left[id] -= 1
            if left[id]:
                trials.passed([id])
            else:
                del left[id]
                trials.gone([id])
    raise AssertionError("no end")


@given(st.sets(st.sampled_from(REQUESTS)), st.integers(1, len(REQUESTS)))
def test_exactly_the_poison_is_condemned(poison: set[str], count: int) -> None:
    requests = REQUESTS[:count]
    condemned = play(requests, lambda running: bool(running & poison))
    assert sorted(condemned) == sorted(poison.intersection(requests))


def test_a_crash_that_never_comes_again_condemns_nobody() -> None:
    left = [True]
    assert play(REQUESTS, lambda running: bool(left) and left.pop()) == []


@given(st.sets(st.sampled_from(REQUESTS), min_size=2, max_size=2))
def test_a_crash_that_needs_two_together_condemns_nobody(pair: set[str]) -> None:
    crashes = []

    def together(running: set[str]) -> bool:
        crashes.append(pair <= running)
        return crashes[-1]

    assert play(REQUESTS, together) == []
    assert sum(crashes) > MOST_INQUIRIES


def test_requests_that_are_gone_end_a_trial() -> None:
    trials = Trials()
    assert trials.crash(["b", "a"]) is None
    assert trials.allowed == {"b"}
    trials.passed(["b"])
    assert trials.allowed == {"a"}
    trials.passed(["a"])
    assert trials.allowed is None


def test_one_that_was_alone_has_a_second_chance() -> None:
    trials = Trials()
    assert trials.crash(["only"]) is None
    assert trials.allowed == {"only"}
    assert trials.crash(["only"]) == "only"
    assert trials.allowed is None
