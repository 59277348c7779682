"""Everyday inferences: what has a trait if its whole kind has it, and what does not follow from that."""

from collections.abc import Callable

from serving.lab.corpus.grammar import capital, prose
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.parts import Exchange, TextDraw

WORDS = knowledge("logic").words
# A kind, what all of it has, and some that belong to it.
KINDS = (
    ("bird", "feathers", ("sparrow", "owl", "duck", "eagle")), ("fish", "gills", ("trout", "herring", "carp")),
    ("insect", "six legs", ("ant", "beetle", "fly", "wasp")), ("spider", "eight legs", ("tarantula",)),
    ("mammal", "a heart", ("horse", "whale", "bat", "mouse")), ("mammal", "lungs", ("dolphin", "cow", "rabbit")),
    ("reptile", "scales", ("snake", "lizard", "crocodile")), ("plant", "cells", ("fern", "rose", "cactus")),
    ("triangle", "three corners", ("figure with three sides",)), ("bicycle", "two wheels", ("racing bicycle",)),
    ("car", "brakes", ("taxi", "van")), ("tree", "roots", ("birch", "oak", "palm")), ("house", "a roof", ("cottage",)),
    ("book", "pages", ("novel", "dictionary")), ("cat", "whiskers", ("tiger", "lion")),
    ("bird", "a beak", ("crow", "swan")),
)  # fmt: skip
MADE_UP = ("wug", "blick", "zorp", "dax", "fep", "lorn", "mib", "tove", "glim", "plonk", "snark", "quib")
TRAITS = (
    "a tail",
    "blue eyes",
    "wings",
    "two heads",
    "stripes",
    "long ears",
    "green hair",
    "horns",
    "a red nose",
    "spots",
)
GROUPS = (
    ("my cousins", "play chess", "plays chess"), ("the people in our street", "own a dog", "owns a dog"),
    ("the students in this class", "speak French", "speaks French"), ("the members of the club", "swim", "swims"),
    ("my colleagues", "drink coffee", "drinks coffee"),
    ("the players of our team", "train on Monday", "trains on Monday"),
)  # fmt: skip


def belonging(draw: TextDraw) -> Exchange:
    """Draw a question on a kind, a trait and something, with the answer and its reason."""
    real = draw.chance(0.6)
    kind, trait, members = draw.pick(KINDS) if real else (draw.pick(MADE_UP), draw.pick(TRAITS), MADE_UP)
    one = f"a {draw.pick([member for member in members if member != kind])}"
    # What is not so is asked of made-up kinds alone, so that nothing false is said of real ones.
    prompt, answer, short = draw.pick(FORMS[:2] if real else FORMS)(kind, trait, one)
    more = {"shorter": short}
    if short == "Yes.":
        more["why"] = "It follows from the two sentences alone, whatever the words mean."
    return Exchange(capital(prose(_put(prompt, draw))), prose(answer), more)


def _has(kind: str, trait: str, one: str) -> tuple[str, str, str]:
    prompt = f"if every {kind} has {trait} and {one} is a {kind}, does {one} have {trait}?"
    return prompt, f"Yes. Every {kind} has {trait}, and {one} is a {kind}, so {one} has {trait}.", "Yes."


def _all_have(kind: str, trait: str, one: str) -> tuple[str, str, str]:
    prompt = f"each {kind} has {trait}. {capital(one)} is a {kind}. Does it have {trait}?"
    return prompt, f"Yes, it has {trait}, because it is a {kind} and each {kind} has {trait}.", "Yes."


def _turned(kind: str, trait: str, one: str) -> tuple[str, str, str]:
    prompt = f"if every {kind} has {trait} and {one} has {trait}, is {one} a {kind}?"
    return prompt, f"No, that does not follow. Something else may have {trait} too.", "No."


def _lacks(kind: str, trait: str, one: str) -> tuple[str, str, str]:
    prompt = f"if every {kind} has {trait} and {one} does not have {trait}, can {one} be a {kind}?"
    return prompt, f"No, it cannot. Every {kind} has {trait}, and {one} does not have {trait}.", "No."


def _some(kind: str, trait: str, one: str) -> tuple[str, str, str]:
    prompt = f"if only some {kind}s have {trait} and {one} is a {kind}, does {one} have {trait}?"
    return prompt, f"We do not know. Only some {kind}s have {trait}, and {one} may be one of the others.", "Perhaps."


def _none(kind: str, trait: str, one: str) -> tuple[str, str, str]:
    prompt = f"if no {kind} has {trait} and {one} is a {kind}, does {one} have {trait}?"
    return prompt, f"No. No {kind} has {trait}, and {one} is a {kind}, so {one} does not have {trait}.", "No."


FORMS: tuple[Callable[[str, str, str], tuple[str, str, str]], ...] = (_has, _all_have, _turned, _lacks, _some, _none)


def acquaintance(draw: TextDraw) -> Exchange:
    """Draw a question on a group of people and one of them."""
    group, do, does = draw.pick(GROUPS)
    name = draw.pick(WORDS["people"])
    of = f"one of {group}"
    prompt, answer = draw.pick(
        [
            (
                f"all {group} {do}, and {name} is {of}. What do you know about {name}?",
                f"{name} {does}, because {name} is {of} and all of them {do}.",
            ),
            (
                f"if all {group} {do} and {name} {does}, is {name} {of}?",
                f"Not necessarily. {name} {does}, but other people may {do} as well.",
            ),
            (
                f"some of {group} {do}, and {name} is {of}. Is it certain that {name} {does}?",
                f"No, it is not certain. Only some of {group} {do}, and {name} may be one of the others.",
            ),
        ]
    )
    return Exchange(capital(_put(prompt, draw)), answer, {"shorter": answer.split(",")[0].split(".")[0] + "."})


def _put(prompt: str, draw: TextDraw) -> str:
    return draw.pick(["", "", "", "A riddle: ", "Tell me: ", "Here is a question: "]) + capital(prompt)
