"""What nobody can answer: does each answer take up the words of its question, turned to "you", and nothing else?"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from random import Random

import pytest

from serving.lab.corpus import other, unknown
from serving.lab.corpus.corpus import JUDGED_QUESTIONS
from serving.lab.corpus.grammar import capital, prose, theirs, yours
from serving.lab.corpus.knowledge import Knowledge, knowledge, load
from serving.lab.corpus.moves import asked_why, scene
from serving.lab.corpus.parts import Exchange, TextDraw
from serving.topics.names import OTHER

SEEDS = range(3000)
WORDS, PEOPLE, EVERYDAY, LIFE, DAYS = map(knowledge, ("words", "people", "everyday", "life", "days"))
FUNCTION = set(
    re.findall(
        r"\w+",
        """a an the of to in on at for with without about and or not is are was were be been do does did has have had it
        its can could may might will would shall should must what which who why when where how if so that this there
        than as i me my you your we they their them one some many much most more any every better best good know tell
        explain wonder think say says said really true people""",
    )
)


@cache
def composed(seed: int) -> Exchange:
    return unknown.composed(TextDraw(Random(f"composed/{seed}")))


def content(text: str) -> set[str]:
    """Words that carry the meaning, cut to their stems so that a plural is the same word."""
    words = re.findall(r"[a-zé]+", text.lower())
    return {word[:4].rstrip("es") for word in words if word not in FUNCTION}


def test_an_answer_takes_up_the_words_of_its_question() -> None:
    shared = [content(ex.prompt) & content(ex.answer) for ex in map(composed, SEEDS)]
    assert all(shared)


@pytest.mark.parametrize("rule", ["risky", "bodily", "social", "effort"])
def test_what_is_asked_stands_in_the_answer_with_your_for_my(rule: str) -> None:
    phrases, seen = WORDS.grammar.rules[rule], 0
    for ex in map(composed, SEEDS):
        for phrase in (prose(phrase) for phrase in phrases):
            if re.search(rf"\b{re.escape(phrase)}\b", ex.prompt) and re.search(r"\b(?:to|I)\b", ex.prompt):
                others = (yours(phrase), theirs(phrase))
                assert any(other in ex.answer for other in others) or _longer(phrase, ex, phrases)
                seen += 1
    assert seen > 50


def _longer(phrase: str, ex: Exchange, phrases: Sequence[str]) -> bool:
    """A phrase that only ends or begins another one was not what was asked."""
    return any(phrase in longer != phrase and prose(longer) in ex.prompt for longer in phrases)


def test_why_some_people_are_so_is_answered_with_the_same_people_and_trait() -> None:
    seen = 0
    for ex in map(composed, SEEDS):
        asked = re.fullmatch(r"Why are some (.*)\?", ex.prompt)
        if asked and any(ex.prompt.endswith(f" {trait}?") for trait in WORDS.grammar.rules["trait"]):
            assert f"{asked[1].removeprefix('so ').split(' ')[0]}" in ex.answer
            assert asked[1].split(" ")[-1] in ex.answer
            seen += 1
    assert seen > 10


@pytest.mark.parametrize("known", [WORDS, PEOPLE, EVERYDAY], ids=["words", "people", "everyday"])
def test_an_answer_does_not_say_my_of_what_is_yours(known: Knowledge) -> None:
    for seed in SEEDS:
        answer = scene(known, TextDraw(Random(f"person/{seed}"))).answer
        if "\n" not in answer:  # letters and poems speak for whoever asked
            assert not re.search(r"\b[Mm](?:y(?! texts| best)|yself|ine)\b", answer.replace("of my own", "")), answer


@pytest.mark.parametrize("known", [WORDS, PEOPLE, EVERYDAY], ids=["words", "people", "everyday"])
def test_scenes_are_clean(known: Knowledge) -> None:
    for seed in SEEDS:
        ex = scene(known, TextDraw(Random(f"clean/{seed}")))
        for text in (ex.prompt, ex.answer, *ex.more.values()):
            assert not re.search(r"[{}]| [.,;?]|\.\.|  ", text), text
            assert not re.search(r"\b[Aa] (?:[aio]|e(?!u))", text), text
            assert not re.search(r"\b[Aa]n (?:[bcdfgjklmnpqrstvwyz])", text), text
            assert not re.search(r"\b(\w+) \1\b", re.sub(r"had had|that that", "", text)), text


def test_who_says_my_is_told_your_and_others_have_theirs() -> None:
    assert yours("change my name") == "change your name"
    assert theirs("change my name") == "change their name"
    assert yours("I lost myself in my I-beam, mine and me") == "you lost yourself in your I-beam, yours and you"


def test_legal_questions_are_answered_with_their_matter() -> None:
    for seed in SEEDS[:500]:
        ex = unknown.permitted(TextDraw(Random(seed)))
        assert any(prose(m) in ex.prompt and prose(yours(m)) in ex.answer for m in WORDS.grammar.rules["matter"])


def test_a_fifth_of_daily_life_is_beyond_the_model() -> None:
    assert 0.15 < Counter(other.KINDS)["u"] / len(other.KINDS) < 0.25


def test_no_refused_word_is_a_concept_that_is_known() -> None:
    known = {concept.name for name in ("home", "life", OTHER) for concept in knowledge(name).concepts}
    rules = WORDS.grammar.rules
    refused = {prose(f"a {word}") for rule in ("thing", "animal", "plant") for word in rules[rule]} | set(rules["idea"])
    assert not known & refused


def test_no_fact_is_told_twice() -> None:
    for known in (LIFE, DAYS):
        assert len({concept.definition for concept in known.concepts}) == len(known.concepts)
    home = knowledge("home")
    for one, two in ((home.steps, DAYS.steps), (home.whys, DAYS.whys)):
        assert not {key for key, _ in one} & {key for key, _ in two}
    assert not {concept.name for concept in home.concepts} & {concept.name for concept in LIFE.concepts}


def test_reasons_and_steps_are_whole() -> None:
    assert all(capital(reason) == reason and reason.endswith(".") for _, reasons in DAYS.whys for reason in reasons)
    assert all(len(parts) >= 4 and not part.endswith(".") for _, parts in DAYS.steps for part in parts)
    for clause, _ in DAYS.whys:
        question = asked_why(clause)
        assert not question or set(clause.split()) - set(re.findall(r"[\w-]+", question)) <= {clause.split()[1]}


def test_how_long_something_takes_is_what_the_table_says() -> None:
    for seed in SEEDS[:500]:
        ex = other.lasting(TextDraw(Random(seed)))
        task, time, _ = next(row for row in other.DURATIONS if row[0] in ex.prompt)
        assert time in ex.answer and yours(task) in ex.answer


def test_a_difference_names_both_things_and_nothing_else() -> None:
    for seed in SEEDS[:500]:
        ex = other.apart(TextDraw(Random(seed)))
        pair = next(row for row in other.DIFFERENCES if row[2] == ex.more["shorter"])
        assert all(thing in ex.prompt.lower() and thing in ex.answer.lower() for thing in map(str.lower, pair[:2]))


def test_no_question_that_judges_the_model_is_asked() -> None:
    judged = set(JUDGED_QUESTIONS)
    makers = [lambda draw, known=known: scene(known, draw) for known in with_scenes()]
    for make in [*makers, unknown.permitted, other.lasting, other.apart]:
        assert not judged & {make(TextDraw(Random(seed))).prompt for seed in SEEDS}
    assert not judged & {question for known in with_scenes() for one in known.scenes for question in one["ask"]}
    assert not judged & {asked_why(clause) for clause, _ in DAYS.whys}


def with_scenes() -> list[Knowledge]:
    return [WORDS, PEOPLE, EVERYDAY]


def test_files_of_facts_have_slots_only_in_scenes_and_rules() -> None:
    for name in ("life", "days"):
        assert "{" not in str(
            {key: value for key, value in load(name).items() if key not in ("scene", "rules")}
        ).replace("{'", "")
