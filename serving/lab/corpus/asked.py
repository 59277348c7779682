"""What people ask of anything at all, and nobody could have learnt by heart: answers that take up the question's words.

`facts/asked.toml` and the files of its folder compose questions of several thousand common words and of words that
don't exist; what is said in answer holds for anything of that kind, and takes up only what is short and common, which
a small model can copy. A few hundred questions in people's own words have answers of their own, and twice as many
have none.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from serving.lab.corpus.agents.tool_calls import without_tools
from serving.lab.corpus.grammar import capital, plural, prose, yours
from serving.lab.corpus.knowledge import Concept, Knowledge, knowledge
from serving.lab.corpus.moves import defined, explained, played, said
from serving.lab.corpus.parts import Exchange, TextDraw
from serving.topics.names import OTHER

ASKED = knowledge("asked")
ANSWERED: list[tuple[list[str], list[str]]] = ASKED.tables["answered"]  # wordings, and answers that fit each of them
# A question, the thing in it that an answer may take up, and its topic, if it is of one.
ABOUT: list[tuple[str, ...]] = ASKED.tables["about"]
TROUBLES: list[tuple[str, str, str]] = ASKED.tables["troubles"]  # whose or which thing, what is wrong, its field
ASKED_FIRST: list[tuple[str, str]] = ASKED.tables["asked_first"]  # a topic, and what of its facts is asked about
WORDY: dict[str, list[str]] = ASKED.tables["wordy"]  # how one asks in more words than it takes, by what it is about
LONG_ASKED = 0.4  # of questions that people ask first, how many come so
# Of a hundred questions, how many are of these kinds; the rest are scenes.
KINDS = "a" * 9 + "b" * 14 + "t" * 10 + "c" * 3 + "n" * 3 + "k" * 8 + "s" * 53
FOREIGN = 0.3  # of troubles, how many have a thing of any kind, and advice that holds for any
TOLD = (
    *("{whose.cap} {wrong}. {what_now}",) * 6,
    "What can I do if {whose} {wrong}?",
    "What should I do when {whose} {wrong}?",
    "Help, {whose} {wrong}!",
    "Who can help me if {whose} {wrong}?",
    "Why is it that {whose} {wrong}?",
)
COMPARED = (
    "What is the difference between {x} and {y}?",
    "What's the difference between {x} and {y}?",
    "How do {x} and {y} differ?",
    "Compare {x} and {y}.",
    "Is {x} the same as {y}?",
)
UNKNOWN = (
    "I know too little about {x} to compare them.",
    "I know too little about the other one to compare them.",
    "I can't say how the other one differs.",
    "Of the other one, I know too little.",
    "How the other one differs is more than I know.",
)
TOPICS_COMPARED = ("cs", "legal", "science", "humanities")
ONE = re.compile(r"(?:will|can|cannot|[a-z]*s)\b")  # begins what one thing does
# What an answer takes up has at most so many words and letters, without its article; a deed may have more.
SHORT, SHORT_DEED = (2, 12), (3, 20)
MADE_UP = ("syllable", "vowel", "coda")
ARTICLE = re.compile(r"^(?:an?|the|my|your) ")
REPEATED = re.compile(r"([^.?!\n]+[.?!]) \1(?=\s|$)")


def asked(draw: TextDraw) -> tuple[str, Exchange]:
    """Draw a question of people, and an answer that takes up its words; return its topic as well."""
    kind = draw.pick(KINDS)
    if kind == "a":
        wordings, told = draw.pick(ANSWERED)
        return OTHER, Exchange(draw.pick(wordings), draw.pick(told))
    if kind == "b":
        prompt, thing, *topic = draw.pick(ABOUT)
        return (topic or [OTHER])[0], Exchange(prompt, _little(thing, draw))
    if kind == "c":
        return _half_known(draw)
    if kind == "t":
        trouble = _trouble(draw)
        return OTHER, Exchange(trouble.prompt, _once(trouble.answer))
    if kind == "n":
        return OTHER, without_tools(draw)
    if kind == "k":
        return _known_by_all(draw)
    scene = draw.pick(ASKED.scenes)
    return scene.get("topic", OTHER), of_scene(scene, draw)


def of_scene(scene: Mapping[str, Any], draw: TextDraw) -> Exchange:
    """Draw a question of this scene, and an answer that copies little of it."""
    exchange = played(ASKED, scene, draw, copies_little)
    return Exchange(exchange.prompt, _once(exchange.answer) or "I have no good answer to that.")


@cache
def common_words() -> frozenset[str]:
    """Return the words that the rules are made of, and so none that is put together of syllables."""
    rules = (texts for name, texts in ASKED.grammar.rules.items() if name not in MADE_UP)
    words = {word for texts in rules for text in texts for word in re.findall("[a-z]+", text)}
    return frozenset(words | {plural(word) for word in words})


def _short(core: str, most: tuple[int, int]) -> bool:
    words = core.split()
    return (
        len(words) <= most[0]
        and len(core) <= most[1]
        and all(word.isdigit() or word in common_words() for word in words)
    )


def copies_little(text: str, prompt: str, bound: Mapping[str, str]) -> bool:
    """Return whether this answer takes up nothing of the prompt but what is short and common, and so easily copied."""
    for key, value in bound.items():
        core = prose(ARTICLE.sub("", value))
        if core in prompt and not _short(core, SHORT_DEED if key == "d" else SHORT):
            copies = {copy.lower().removesuffix("y") for copy in (core, yours(core))}
            if any(copy in text.lower() for copy in copies):
                return False
    return True


def _said(texts: Sequence[str], draw: TextDraw, **bound: str) -> str:
    return capital(said(ASKED, texts, draw, " ".join(bound.values()), bound, copies_little))


def _once(answer: str) -> str:
    """Return an answer without a sentence that it says twice, one after the other."""
    return REPEATED.sub(r"\1", answer)


def _little(thing: str, draw: TextDraw) -> str:
    """Say that nothing certain is known of a thing."""
    parts = ["{little}", "{then}", *draw.pick(([], [], ["{then}"]))]
    return _once(" ".join(_said([part], draw, x=thing) for part in parts))


def _trouble(draw: TextDraw) -> Exchange:
    """Draw something that goes wrong, and advice that holds for any trouble of its field."""
    thing, wrong, field = draw.pick(TROUBLES)
    advice = f"{{advice_{field}}}"
    if draw.chance(FOREIGN) and ONE.match(wrong):
        thing, advice = ASKED.grammar.expand("{own}", draw), "{trouble_tip}"
    prompt = ASKED.ask(TOLD, draw, whose=thing, wrong=wrong)
    parts = ["{sorry_for}", advice, *draw.pick(([], [advice]))]
    return Exchange(prompt, " ".join(_said([part], draw, n=thing) for part in parts))


def _known_by_all(draw: TextDraw) -> tuple[str, Exchange]:
    """Draw one of the questions that people ask first of any assistant, with the answer that the topic's facts give."""
    topic, what = draw.pick(ASKED_FIRST)
    known = knowledge(topic)
    if draw.chance(LONG_ASKED):
        return topic, _asked_at_length(known, what, draw)
    if concept := known.named.get(what):
        return topic, defined(known, concept, draw)
    return topic, explained(known, what, dict(known.whys)[what], draw)


def _asked_at_length(known: Knowledge, what: str, draw: TextDraw) -> Exchange:
    """Ask about something known in more words than it takes, and tell it in two sentences."""
    concept = known.named.get(what)
    if concept is None:
        return Exchange(ASKED.ask(WORDY["why"], draw, x=what), " ".join(dict(known.whys)[what][:2]))
    wordings = WORDY["who" if concept.kind == "who" else "thing"]
    return Exchange(ASKED.ask(wordings, draw, **concept.bound), f"{concept.sentence} {draw.pick(concept.facts)}")


@cache
def _known(topic: str) -> list[Concept]:
    return [one for one in knowledge(topic).concepts if one.kind == "one"]


def _half_known(draw: TextDraw) -> tuple[str, Exchange]:
    """Draw a comparison of something known with something that is not."""
    topic = draw.pick(TOPICS_COMPARED)
    concept = draw.pick(_known(topic))
    other = ASKED.say("{mass}" if draw.chance(0.6) else "a {one}", draw)
    first, second = (concept.name, other) if draw.chance(0.6) else (other, concept.name)
    prompt = ASKED.ask(COMPARED, draw, x=first, y=second)
    return topic, Exchange(prompt, f"{concept.sentence} {_said(UNKNOWN, draw, x=other)}")
