"""What is asked of a topic's facts: are the answers true, whole and in good English?"""

import re
from random import Random

import pytest

from serving.lab.corpus import moves, world
from serving.lab.corpus.grammar import plural
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.parts import Exchange, TextDraw

NAMES = ("legal", "humanities", "cs", "science", "math", "logic")
SEEDS = range(300)


def drawn(move: moves.Move, name: str) -> list[Exchange]:
    return [move(knowledge(name), TextDraw(Random(seed))) for seed in SEEDS]


@pytest.mark.parametrize("name", NAMES)
def test_only_a_definition_of_something_else_is_denied(name: str) -> None:
    known = {concept.definition: concept.name for concept in knowledge(name).concepts}
    for exchange in drawn(moves.confirm, name):
        told = [definition for definition in known if f" {definition}" in exchange.prompt]
        denied = exchange.answer.startswith(("No", "That is false"))
        assert denied != any(f"{known[definition]} is {definition}" in exchange.prompt for definition in told)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_follows_on_what_was_described_instead(name: str) -> None:
    described = [exchange.answer.partition("What you describe is ") for exchange in drawn(moves.confirm, name)]
    assert any(after for _, _, after in described)
    assert not any(". " in after for _, _, after in described)


@pytest.mark.parametrize("name", NAMES)
def test_a_plain_question_is_answered_with_all_that_is_told(name: str) -> None:
    told = {wording: " ".join(texts) for wordings, texts in knowledge(name).quizzes for wording in wordings}
    for exchange in drawn(moves.quiz, name):
        assert exchange.answer == next(told[asked] for asked in told if exchange.prompt.endswith(asked))


@pytest.mark.parametrize("name", NAMES)
def test_no_step_is_left_out(name: str) -> None:
    for exchange in drawn(moves.steps, name):
        parts = next(parts for task, parts in knowledge(name).steps if task in exchange.prompt)
        for text in (exchange.answer, exchange.more["shorter"]):
            assert all(part[1:] in text for part in parts)


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_told_in_their_order(name: str) -> None:
    for exchange in drawn(moves.define, name):
        own = exchange.answer.partition(" It is worth knowing what stands beside it.")[0]
        concept = next(one for one in knowledge(name).concepts if one.clause[1:] in own)
        said = [own.index(fact) for fact in concept.facts if fact in own]
        assert said == sorted(said)


@pytest.mark.parametrize(
    ("clause", "question"),
    [
        ("English has so many French words", "Why does English have so many French words?"),
        ("black clothes get hot", "Why do black clothes get hot?"),
        ("interest rates rise", "Why do interest rates rise?"),
        ("spiders do not stick to their webs", "Why do spiders not stick to their webs?"),
        ("thunder follows lightning", "Why does thunder follow lightning?"),
        ("plants need light", "Why do plants need light?"),
        ("planes can fly", "Why can planes fly?"),
        ("Columbus sailed west", ""),
        ("the moon has phases", ""),
    ],
)
def test_a_reason_is_asked_for_in_good_english(clause: str, question: str) -> None:
    assert moves.asked_why(clause) == question


@pytest.mark.parametrize(
    ("noun", "many"),
    [
        *(("sheep", "sheep"), ("mouse", "mice"), ("wolf", "wolves"), ("goldfish", "goldfish"), ("tooth", "teeth")),
        *(("goose", "geese"), ("binoculars", "binoculars"), ("dozen", "dozen"), ("woman", "women"), ("fox", "foxes")),
        *(("human", "humans"), ("century", "centuries"), ("polar bear", "polar bears"), ("glass", "glasses")),
    ],
)
def test_plurals(noun: str, many: str) -> None:
    assert plural(noun) == many


def test_an_animal_is_told_of_in_one_number() -> None:
    plurals = [plural(name.split(" ", 1)[1]) for name, *_ in world.ANIMALS]
    for seed in SEEDS:
        answer = world.animal(TextDraw(Random(seed))).answer
        assert not re.match(rf"(?:{'|'.join(plurals)}) (?:are|eat|live)\b.* It", answer, re.IGNORECASE)


def test_another_thing_of_a_kind_is_a_new_one() -> None:
    for seed in SEEDS:
        exchange = world.some_of(TextDraw(Random(seed)))
        assert exchange.more.get("another", "-").lower().rstrip(".") not in re.split(
            r", | and |: | are |\.", exchange.answer.lower()
        )


def test_what_is_told_of_a_country_does_not_follow_on_its_capital() -> None:
    told = {row[4] for row in world.COUNTRIES}
    for seed in SEEDS:
        first, *rest = re.split(r"(?<=\.) ", world.country(TextDraw(Random(seed))).answer)
        assert not told & set(rest), first
