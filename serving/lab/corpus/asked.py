"""What people ask of anything at all, and nobody could have learnt by heart: answers that take up the question's words.

`facts/asked.toml` and the files of its folder compose questions of several thousand common words and of words that
don't exist, so that a model of any size has to copy what is asked about; what it then says holds for anything of that
kind. A few hundred questions in people's own words have answers of their own, and twice as many have none.
"""

import re
from functools import cache

from serving.lab.corpus.agents.tool_calls import without_tools
from serving.lab.corpus.grammar import capital
from serving.lab.corpus.knowledge import Concept, knowledge
from serving.lab.corpus.moves import defined, explained, played
from serving.lab.corpus.parts import Exchange, TextDraw
from serving.topics.names import OTHER

ASKED = knowledge("asked")
ANSWERED: list[tuple[list[str], list[str]]] = ASKED.tables["answered"]  # wordings, and answers that fit each of them
# A question, the thing in it that an answer may take up, and its topic, if it is of one.
ABOUT: list[tuple[str, ...]] = ASKED.tables["about"]
TROUBLES: list[tuple[str, str, str]] = ASKED.tables["troubles"]  # whose or which thing, what is wrong, its field
ASKED_FIRST: list[tuple[str, str]] = ASKED.tables["asked_first"]  # a topic, and what of its facts is asked about
# Of a hundred questions, how many are of these kinds; the rest are scenes.
KINDS = "a" * 9 + "b" * 14 + "t" * 10 + "c" * 3 + "n" * 3 + "k" * 8 + "s" * 53
FOREIGN = 0.3  # of troubles, how many have a thing of any kind, and advice that holds for any
TOLD = (
    *("{thing.cap} {wrong}. {what_now}",) * 6,
    "What can I do if {thing} {wrong}?",
    "What should I do when {thing} {wrong}?",
    "Help, {thing} {wrong}!",
    "Who can help me if {thing} {wrong}?",
    "Why is it that {thing} {wrong}?",
    "{thing.cap} {wrong}. Can I {any_deed}?",
    "{thing.cap} {wrong}. Should I {any_deed}?",
    "{thing.cap} {wrong}. Am I allowed to {any_deed}?",
)
COMPARED = (
    "What is the difference between {x} and {y}?",
    "What's the difference between {x} and {y}?",
    "How do {x} and {y} differ?",
    "Compare {x} and {y}.",
    "Is {x} the same as {y}?",
)
UNKNOWN = ("I know too little about {x} to compare them.", "Of {x} I know too little.", "About {x}, I am not sure.")
TOPICS_COMPARED = ("cs", "legal", "science", "humanities")
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
    exchange = played(ASKED, scene, draw)
    return scene.get("topic", OTHER), Exchange(exchange.prompt, _once(exchange.answer))


def _once(answer: str) -> str:
    """Return an answer without a sentence that it says twice, one after the other."""
    return REPEATED.sub(r"\1", answer)


def _little(thing: str, draw: TextDraw) -> str:
    """Say that nothing certain is known of a thing."""
    return _once(capital(ASKED.say(f"{{little}} {{then}}{draw.pick(('', '', ' {then}'))}", draw, x=thing)))


def _trouble(draw: TextDraw) -> Exchange:
    """Draw something that goes wrong, and advice that holds for any trouble of its field."""
    thing, wrong, field = draw.pick(TROUBLES)
    advice = f"{{advice_{field}}}"
    if draw.chance(FOREIGN):
        thing, advice = ASKED.grammar.expand("{own}", draw), "{trouble_tip}"
    prompt = ASKED.ask(TOLD, draw, thing=thing, wrong=wrong)
    answer = ASKED.say(f"{{sorry_for}} {advice}{draw.pick(('', ' ' + advice))}", draw, n=thing)
    return Exchange(prompt, capital(answer))


def _known_by_all(draw: TextDraw) -> tuple[str, Exchange]:
    """Draw one of the questions that people ask first of any assistant, with the answer that the topic's facts give."""
    topic, what = draw.pick(ASKED_FIRST)
    known = knowledge(topic)
    if concept := known.named.get(what):
        return topic, defined(known, concept, draw)
    return topic, explained(known, what, dict(known.whys)[what], draw)


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
    return topic, Exchange(prompt, f"{concept.sentence} {ASKED.say(draw.pick(UNKNOWN), draw, x=other)}")
