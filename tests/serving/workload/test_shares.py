"""Shares: names come as often as their shares say, also while those drift."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.workload.shares import NOBODY, shares
from serving.workload.table import WorkloadError, WorkloadTable


def of(value, allowed=None):
    return shares(WorkloadTable({"topics": value}, Path("w.toml")), "topics", allowed)


def counted(found, at_s: float, count: int = 20_000) -> dict[str, float]:
    names = found.pick(np.random.default_rng(0).random(count), np.full(count, at_s))
    return {name: names.count(name) / count for name in found.names}


weights = st.dictionaries(st.sampled_from("abcde"), st.floats(0.01, 10), min_size=1)


@given(weights)
def test_names_come_by_their_shares_which_need_not_add_up_to_1(row):
    whole = sum(row.values())
    assert counted(of(row), 5.0) == pytest.approx({name: share / whole for name, share in row.items()}, abs=0.02)


@given(weights, weights, st.floats(0, 1))
def test_drift_is_a_straight_line_between_two_instants(first, last, place):
    found = of([{"at_s": 100, **first}, {"at_s": 300, **last}])

    def share(name: str, at_s: float) -> float:
        return (1 - at_s) * first.get(name, 0) / sum(first.values()) + at_s * last.get(name, 0) / sum(last.values())

    expected = {name: share(name, place) for name in found.names}
    assert found.at(100 + 200 * place) == pytest.approx(expected)
    assert counted(found, 100 + 200 * place) == pytest.approx(expected, abs=0.02)
    assert counted(found, 0.0) == counted(found, 100.0)
    assert counted(found, 1e6) == counted(found, 300.0)


def test_no_shares_are_nobody():
    assert of(None) is NOBODY
    assert NOBODY.pick(np.zeros(3), np.zeros(3)) == ["", "", ""]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, ["`topics` is 3", "a table of shares by name, or a list"]),
        ({"a": -1}, ["`topics.a` is -1", "at least 0"]),
        ({"a": 0}, ["`topics` has no share above 0"]),
        ({}, ["`topics` has no share above 0"]),
        ({"z": 1}, ["`topics.z` is none of those that there are: a, b"]),
        ({"at_s": 1}, ["`topics.at_s` is none of those"]),
        ([{"a": 1}], ["`topics.at_s` is missing", "at least 0"]),
        ([{"at_s": 5, "a": 1}, {"at_s": 5, "a": 1}], ["`topics.at_s` is 5.0", "later than the one before, 5"]),
    ],
)
def test_what_is_wrong_is_one_sentence(value, words):
    with pytest.raises(WorkloadError) as caught:
        of(value, ("a", "b"))
    for word in words:
        assert word in str(caught.value)
