"""Are replies judged as they are to be, and are the questions none of the corpus's?"""

from itertools import islice

import pytest

from serving.lab.corpus.arithmetic.drills import kept_back
from serving.lab.corpus.corpus import conversations, documents
from serving.lab.corpus.parts import DialogueTurn
from serving.lab.training.judging import arithmetic, long_context, ordinary


def test_a_sum_is_right_only_with_its_result_and_no_other():
    assert arithmetic.is_right((12, "+", 7, 19), "12 + 7 = 19.")
    assert arithmetic.is_right((12, "*", 7, 84), "10 * 7 = 70. So 12 * 7 is 84.")
    assert not arithmetic.is_right((12, "+", 7, 19), "12 + 7 = 190.")
    assert not arithmetic.is_right((12, "+", 7, 19), "It is 19.")
    assert not arithmetic.is_right((12, "+", 7, 19), "12 + 7 = 18. So 12 + 7 = 19.")


@pytest.mark.parametrize("kind", arithmetic.KINDS)
def test_sums_are_of_their_kind(kind):
    signs, _, _, kept = arithmetic.KINDS[kind]
    for a, sign, b, result in arithmetic.drawn(kind):
        assert sign in signs and result >= 0
        assert eval(f"{a} {sign} {b}") == result
        assert not kept or kept_back(a, sign, b)


@pytest.mark.slow
def test_ordinary_questions_are_not_in_the_corpus():
    asked = {question.lower().rstrip(".?") for question in ordinary.QUESTIONS}
    assert len(asked) == 20
    streams = (islice(documents(0, "train"), 40_000), islice(conversations(0, "train"), 100))
    turns = {turn.content.lower().rstrip(".?") for stream in streams for document in stream for turn in document.turns}
    assert not asked & turns


def test_a_verdict_goes_with_its_own_reply_alone():
    verdicts = {"Why?": {"reply": "So.", "readable": True, "on_topic": False}}
    assert ordinary.judged("Why?", "So.", verdicts) == ordinary.OrdinaryReply("Why?", "So.", True, False)
    assert ordinary.judged("Why?", "No.", verdicts) == ordinary.OrdinaryReply("Why?", "No.", None, None)
    assert ordinary.judged("Who?", "So.", verdicts).readable is None


def test_the_assistants_tokens_fall_into_turns():
    assert long_context.spans([False, True, True, False, True]) == [(1, 3), (4, 5)]
    assert long_context.spans([True]) == [(0, 1)] and long_context.spans([]) == []


def test_what_was_told_is_asked_for_at_the_end_of_a_conversation():
    turns = next(conversations(0, "held-out")).turns
    assert any(long_context.is_recall(turn) for turn in turns[-8:] if turn.role == "user")
    assert not long_context.is_recall(turns[0]) and long_context.is_recall(
        DialogueTurn("user", "By the way: Where do I live?")
    )
