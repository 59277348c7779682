"""Distributions have the mean and the spread that they are asked for, and stay in their bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.toml_table import AT_LEAST_0, COUNT
from serving.workload.distributions import KINDS, distribution
from serving.workload.table import WorkloadError, WorkloadTable

N = 40_000
ASKED = {
    "constant": {"value": 7},
    "uniform": {"min": 3, "max": 90},
    "normal": {"mean": 200, "cv": 0.2},
    "lognormal": {"mean": 300, "cv": 1.2, "max": 4000},
    "exponential": {"mean": 50, "min": 4},
    "empirical": {"values": [1, 5, 9], "shares": [1, 0, 3]},
    "file": {"file": "lengths.txt"},
}


@pytest.fixture
def draw(tmp_path):
    (tmp_path / "lengths.txt").write_text("3\n30\n300\n")

    def draw(value, count=N, seed=0, allowed=COUNT):
        table = WorkloadTable({"prompt": value}, tmp_path / "w.toml")
        return distribution(table, "prompt", allowed).whole(np.random.default_rng(seed), count)

    return draw


def test_all_kinds_are_tested():
    assert set(ASKED) == set(KINDS)


@pytest.mark.parametrize("kind", ASKED)
def test_values_are_whole_within_bounds_and_a_seed_repeats_them(draw, kind):
    asked = {"kind": kind} | ASKED[kind]
    values = draw(asked)
    assert values.dtype == np.int64
    assert np.array_equal(values, draw(asked))
    assert values.min() >= max(1, asked.get("min", 1))
    assert values.max() <= asked.get("max", 10**6)


@pytest.mark.parametrize(("kind", "mean", "cv"), [("normal", 200, 0.2), ("lognormal", 300, 0.8), ("lognormal", 50, 0)])
def test_mean_and_cv_are_those_asked_for(draw, kind, mean, cv):
    values = draw({"kind": kind, "mean": mean, "cv": cv})
    assert values.mean() == pytest.approx(mean, rel=0.03)
    assert values.std() / values.mean() == pytest.approx(cv, rel=0.05, abs=1e-9)


def test_an_exponential_has_its_mean(draw):
    assert draw({"kind": "exponential", "mean": 500}).mean() == pytest.approx(500, rel=0.03)


@given(st.integers(1, 30), st.integers(0, 6))
def test_each_whole_number_is_as_likely_in_a_uniform_one(low, more):
    table = WorkloadTable({"x": {"kind": "uniform", "min": low, "max": low + more}}, None)
    values = distribution(table, "x", COUNT).whole(np.random.default_rng(1), 7000)
    counts = np.bincount(values - low, minlength=more + 1)
    assert len(counts) == more + 1
    assert counts == pytest.approx(7000 / (more + 1), rel=0.3)


def test_shares_of_values(draw):
    values = draw({"kind": "empirical", "values": [1, 5, 9], "shares": [1, 0, 3]})
    assert set(values.tolist()) == {1, 9}
    assert (values == 9).mean() == pytest.approx(0.75, abs=0.02)
    assert set(draw({"kind": "file", "file": "lengths.txt"}).tolist()) == {3, 30, 300}


def test_a_number_is_that_number_every_time(draw):
    assert set(draw(12).tolist()) == {12}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, ["`prompt` is missing", "a whole number of at least 1, or a table with a `kind`"]),
        (0, ["`prompt` is 0", "at least 1"]),
        (2.5, ["2.5", "whole number"]),
        (True, ["True"]),
        ({}, ["`prompt.kind` is missing", "lognormal"]),
        ({"kind": "zipf"}, ["`prompt.kind` is 'zipf'", "constant or uniform"]),
        ({"kind": "normal", "mean": 5}, ["`prompt.cv` is missing", "at least 0"]),
        ({"kind": "exponential", "meen": 5}, ["`prompt.mean` is missing (is `meen` it?)", "above 0"]),
        ({"kind": "exponential", "mean": 5, "maxx": 9}, ["no key `maxx` in `prompt`", "did you mean `max`"]),
        ({"kind": "normal", "mean": -5, "cv": 1}, ["`prompt.mean` is -5", "above 0"]),
        ({"kind": "uniform", "min": 5, "max": 4}, ["`prompt.max` is 4", "at least 5"]),
        ({"kind": "constant", "value": 5, "mean": 4}, ["there is no key `mean` in `prompt`", "kind, value"]),
        ({"kind": "empirical", "values": []}, ["`prompt.values` is []", "a list of numbers"]),
        ({"kind": "empirical", "values": [1, 2], "shares": [1]}, ["`prompt.shares` has 1", "each of 2 values"]),
        ({"kind": "file", "file": "none.txt"}, ["`prompt.file` is 'none.txt'", "there is no"]),
        ({"kind": "file", "file": "w.toml"}, ["`prompt.file`", "one number in each line"]),
        ({"kind": "file", "file": "endless.txt"}, ["`prompt.file`", "one number in each line", "at least 1"]),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, value, words):
    (tmp_path / "w.toml").write_text("x = 'not a number'")
    (tmp_path / "endless.txt").write_text("3\ninf\n")
    table = WorkloadTable({} if value is None else {"prompt": value}, tmp_path / "w.toml")
    with pytest.raises(WorkloadError) as caught:
        distribution(table, "prompt", COUNT)
    assert str(caught.value).endswith(".")
    for word in ["w.toml, line 1", *words]:
        assert word in str(caught.value)


def test_times_may_be_0_and_need_not_be_whole():
    table = WorkloadTable({"think_s": {"kind": "uniform", "min": 0, "max": 0.5}}, None)
    values = distribution(table, "think_s", AT_LEAST_0).draw(np.random.default_rng(0), 1000)
    assert 0 <= values.min() < 0.01 and 0.49 < values.max() <= 0.5
