"""Which tokens of a prompt are read, whatever it consists of?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.topics.prompt_reader import HEAD, TAIL, PromptReader

READER = PromptReader()


@given(st.text(st.characters(), max_size=200), st.integers(1, 40))
def test_any_text_is_read_and_never_more_than_is_wanted_of_it(text, times):
    tokens = READER.read(text * times)
    assert 2 <= len(tokens) <= HEAD + TAIL + 2
    assert (tokens[0], tokens[-1]) == tuple(READER.read(""))


def test_a_short_prompt_is_read_whole_whatever_its_capitals():
    assert len(READER.read("What is a contract?")) == 5 + 2
    assert READER.read("WHAT IS A CONTRACT?") == READER.read("what is a contract?")


@pytest.mark.parametrize("words", [100, 100_000])
def test_a_long_prompt_is_read_where_it_begins_and_where_it_ends(words):
    middle = " ".join(["filler"] * words)
    begins, ends = READER.read("why does this fail"), READER.read("thanks for any help")
    tokens = READER.read(f"why does this fail {middle} thanks for any help")
    assert len(tokens) == HEAD + TAIL + 2
    assert tokens[:5] == begins[:5]
    assert tokens[-5:] == ends[-5:]


def test_half_of_a_surrogate_pair_is_no_error():
    assert READER.read("a \ud83d b") == READER.read("a ? b")
