"""Are replies judged as they are to be, and are the questions none of the corpus's?"""

from itertools import islice

import pytest

from serving.lab.corpus.arithmetic.drills import kept_back
from serving.lab.corpus.corpus import conversations, documents
from serving.lab.training.judging import arithmetic, ordinary


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
