"""The corpus: the same everywhere, balanced, clean, told apart by topic, and hardly ever twice the same."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import islice
from math import log

import pytest

from serving.lab.corpus.corpus import (
    JSON_SHARE,
    JUDGED,
    TEXT_SHARE,
    TOOLS_SHARE,
    WEIGHTS,
    Document,
    dialogue,
    documents,
    prompts,
)
from serving.topics.names import OTHER, TOPICS

FIRST = (
    "from serving.lab.corpus.corpus import dialogue; print([dialogue(t, 11) for t in ('legal', 'cs', 'math', 'logic')])"
)
VOWEL = re.compile(r"\b[Aa] (?:[aeio]|hour|honest)\w*")
FINE = re.compile(r"\b[Aa] (?:uni|use|eu|one\b|once)")
CONSONANT = re.compile(r"\b[Aa]n (?:[bcdfgjklmnpqrstvwyz]\w|h(?!our|onest|eir))")


@cache
def sample(topic: str) -> list[Document]:
    return [dialogue(topic, 2 * seed) for seed in range(5000)]


def words(document: Document) -> Iterator[str]:
    for turn in document.turns:
        if turn.role != "system":
            yield from re.findall(r"[a-z]+", turn.content.lower())


def answers(document: Document) -> list[str]:
    return [turn.content for turn in document.turns if turn.role == "assistant"]


def test_a_dialogue_is_the_same_in_every_process() -> None:
    runs = {subprocess.check_output([sys.executable, "-c", FIRST], env={"PYTHONHASHSEED": seed}) for seed in "12"}
    assert len(runs) == 1


def test_a_stream_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    one, same, other = (list(islice(documents(seed, "train"), 50)) for seed in (3, 3, 4))
    assert one == same
    assert one != other


def test_topics_come_as_often_as_they_weigh() -> None:
    drawn = list(islice(documents(0, "train"), 6500))
    counts = Counter(document.topic for document in drawn if document.turns[0].role != "text")
    assert 0.85 < sum(document.turns[0].role == "text" for document in drawn) / (TEXT_SHARE * 6500) < 1.15
    plain = (1 - TOOLS_SHARE - JSON_SHARE - TEXT_SHARE) * 6500 / sum(WEIGHTS.values())
    assert all(0.85 < counts[topic] / (plain * WEIGHTS[topic]) < 1.15 for topic in TOPICS)


def test_a_dialogue_begins_with_a_user_and_ends_with_an_assistant() -> None:
    for document in islice(documents(1, "train"), 1000):
        if document.turns[0].role == "text":
            assert len(document.turns) == 1
            continue
        roles = [turn.role for turn in document.turns if turn.role != "system"]
        assert roles[0] == "user" and roles[-1] == "assistant" and len(roles) % 2 == 0
        assert roles[1::2] == ["assistant"] * (len(roles) // 2)
        assert all(turn.content.strip() == turn.content != "" for turn in document.turns if turn.role != "system")


@pytest.mark.parametrize("topic", [*TOPICS, OTHER])
def test_texts_are_clean(topic: str) -> None:
    for document in sample(topic)[:1000]:
        for turn in document.turns:
            prose = re.sub(r"```.*?```", "", turn.content, flags=re.DOTALL)
            assert not re.search(r"[{}]| [.,;?]|\.\.", prose), prose
            assert "  " not in re.sub(r"\n +", "", turn.content), turn.content
            assert not [hit for hit in VOWEL.findall(prose) if not FINE.match(hit)], prose
            assert not CONSONANT.search(prose), prose
            assert turn.role == "user" or not turn.content[0].islower() or topic == "math", turn.content


def first(document: Document) -> str:
    return next(turn.content for turn in document.turns if turn.role == "user")


@pytest.mark.parametrize("topic", [*TOPICS])
def test_what_is_asked_in_training_is_never_held_out(topic: str) -> None:
    asked = prompts(topic, 200, seed=0)
    assert len(set(asked)) == 200
    assert not {first(document) for document in sample(topic)}.intersection(asked)


@pytest.mark.parametrize("topic", [*TOPICS])
def test_dialogues_differ(topic: str) -> None:
    documents_ = sample(topic)
    assert len({document.turns for document in documents_}) > 0.92 * len(documents_)
    assert len({answers(document)[0] for document in documents_}) > 0.45 * len(documents_)


@pytest.mark.parametrize("topic", [*TOPICS])
def test_answers_are_short_with_some_long(topic: str) -> None:
    lengths = [len(text.split()) for document in sample(topic) for text in answers(document)]
    assert 15 < sum(lengths) / len(lengths) < 60
    assert 100 < max(lengths) < 220


def test_topics_are_told_apart_by_their_words() -> None:
    counts = {topic: Counter(word for document in sample(topic)[:1500] for word in words(document)) for topic in TOPICS}
    totals = {topic: sum(count.values()) for topic, count in counts.items()}

    def score(document: Document, topic: str) -> float:
        return sum(log((counts[topic][word] + 0.5) / totals[topic]) for word in words(document))

    cases = [dialogue(topic, 2 * seed + 1) for topic in TOPICS for seed in range(150)]
    right = sum(case.topic == max(TOPICS, key=lambda topic, case=case: score(case, topic)) for case in cases)
    assert right > 0.9 * len(cases)


def test_what_the_judges_ask_is_never_asked() -> None:
    assert len(JUDGED) == 20
    asked = {first(document).lower().rstrip(".?") for topic in (*TOPICS, OTHER) for document in sample(topic)}
    assert not asked & JUDGED


def test_a_greeting_is_answered_with_a_greeting() -> None:
    greeted = [document for document in sample(OTHER) if document.turns[0].content == "Hello!"]
    assert greeted
    assert all(answers(document)[0].startswith(("Hello", "Hi", "Good day")) for document in greeted)
