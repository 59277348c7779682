"""Is the name that was meant named, and none where nothing is near?"""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.nearest_name import meant
from serving.scenario.options import KEYS
from tests.examples import examples


@given(st.sampled_from([key for key in KEYS if len(key) > 4]), st.data())
@examples(100)
def test_a_name_with_one_letter_wrong_is_found(key: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(key) - 1))
    wrong = key[:place] + data.draw(st.sampled_from(string.ascii_lowercase)) + key[place + 1 :]
    near = meant(wrong, KEYS)
    assert near.startswith(" (did you mean `") and near.endswith("`?)")
    assert wrong in KEYS or near.removeprefix(" (did you mean `").removesuffix("`?)") in KEYS


@pytest.mark.parametrize("name", ["zzzz", "", "--"])
def test_nothing_is_meant_by_what_is_like_nothing(name: str) -> None:
    assert meant(name, KEYS) == ""


def test_words_that_are_turned_round_are_near() -> None:
    assert meant("seqs_max_num", ["max_num_seqs", "tau"]) == " (did you mean `max_num_seqs`?)"
