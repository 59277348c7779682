"""Text of a workload's segments: as long as asked by the bundled vocabulary, shared where ids are, and on its topic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from serving.corpus.parts import OTHER, TOPICS
from serving.load.texts import text_of
from serving.scenario import BUNDLED_MODEL
from serving.workload import Segment

TOKENIZER = Tokenizer.from_file(str(BUNDLED_MODEL / "tokenizer.json"))
segments = st.builds(
    Segment, st.integers(0, 2**64 - 1), st.integers(1, 400), st.just("user"), st.sampled_from(["", OTHER, *TOPICS])
)


def tokens(text: str) -> list[int]:
    """Behind a space, as all words but a prompt's first are."""
    return TOKENIZER.encode(f" {text}", add_special_tokens=False).ids


@given(st.lists(segments, min_size=1, max_size=5))
def test_a_prompt_has_as_many_tokens_as_its_segments(prompt):
    text = " ".join(map(text_of, prompt))
    assert len(tokens(text)) == sum(segment.tokens for segment in prompt)


@given(segments, st.integers(1, 400))
def test_equal_ids_begin_alike(segment, other_tokens):
    if segment.topic:
        return  # Only blocks of a trace have equal ids and other lengths, and no topic.
    one, other = (text_of(each).split() for each in (segment, Segment(segment.id, other_tokens)))
    shared = min(len(one), len(other))
    assert one[:shared] == other[:shared]


@pytest.mark.parametrize("topic", ["", "math", "legal"])
def test_other_ids_do_not_share_even_a_block(topic):
    begins = {tuple(tokens(text_of(Segment(id, 64, "user", topic)))[:16]) for id in range(2000)}
    assert len(begins) == 2000


def test_a_topic_is_asked_about():
    text = text_of(Segment(7, 300, "user", "math"))
    assert any(word in text for word in ("many", "Solve", "solve", "number", "sum"))
