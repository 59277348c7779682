"""Are questions typed in a hurry still the same questions?"""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from serving.lab.corpus.parts import TextDraw
from serving.lab.corpus.typed import PLAIN_WORDS, typed_on_the_go

BEGINNINGS = (
    "How do I {}?",
    "What is the {}?",
    "My {} is broken. What can I do?",
    "Can you please recommend a {}?",
    "I'd like a {}.",
    "Why is the {} so slow?",
    "{}?",
)
QUESTIONS = st.builds(
    lambda start, words: start.replace("{}", " ".join(words)),
    st.sampled_from(BEGINNINGS),
    st.lists(st.sampled_from(["kettle", "neighbour's", "old", "wash", "my", "Lisbon", "what"]), min_size=1, max_size=4),
)


@given(QUESTIONS, st.integers(0, 400))
def test_in_small_letters_there_are_no_words_but_those_of_the_question(question: str, seed: int) -> None:
    typed = typed_on_the_go(question, TextDraw(Random(seed)))
    if typed != typed.lower() or not PLAIN_WORDS.fullmatch(question):
        return
    said = {word.strip(".,?").replace("'", "") for word in question.lower().split()} | {"to"}
    words = [word.strip(".,?").replace("'", "") for word in typed.split()]
    assert words and set(words) <= said
    assert len(words) > 1 or len(question.split()) == 1 or len(said) <= 3


def test_some_begin_with_what_they_are_about() -> None:
    typed = {typed_on_the_go("What is the best bread?", TextDraw(Random(seed))) for seed in range(200)}
    assert {"What is the best bread?", "what is the best bread", "best bread"} <= typed
