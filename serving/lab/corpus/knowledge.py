"""What is known in one topic: its file of facts and its grammar.

A file `facts/NAME.toml` has concepts by area (`one` "is", `many` "are", `event` and `who` "was"), each a name with its
definition and sentences about it; `steps` by task, `why` by clause, `quiz` by question (its wordings parted by "|"),
`pairs` of concepts that people compare, `scene` (questions and replies that share bindings, drawn `times` as often as
others) and `rules` for the grammar. Facts are sentences as they stand: only scenes and rules have slots. Files in a
folder `facts/NAME/` add to it.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from serving.lab.corpus.grammar import Grammar, capital, prose
from serving.lab.corpus.parts import TextDraw

VERB = {"one": "is", "many": "are", "event": "was", "who": "was"}
PRONOUN = {"one": "it", "many": "they", "event": "it", "who": "that"}
OPENERS = {
    "It", "They", "A", "An", "The", "In", "If", "When", "This", "These", "Most", "Some", "Many", "Its", "Their",
    "One", "Each", "Every", "At", "For", "There", "Because", "Before", "After", "Two", "Both", "On", "Without",
    "Not", "With", "Only", "Unlike", "To", "Since", "People", "By", "While", "Any", "Such", "Once", "Today", "Even",
    "All", "From", "Until",
}  # fmt: skip


def load(name: str) -> dict[str, Any]:
    """Load the file of facts of this name, and what the files in the folder of this name add to it."""
    facts = files("serving.lab.corpus").joinpath("facts")
    data = tomllib.loads(facts.joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    folder = facts.joinpath(name)
    for path in sorted(folder.iterdir(), key=lambda path: path.name) if folder.is_dir() else ():
        _add(data, tomllib.loads(path.read_text(encoding="utf-8")))
    return data


def _add(data: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add to tables and to lists of rows. Raise ValueError at an entry that is there already."""
    for key, value in more.items():
        if isinstance(value, dict):
            _add(data.setdefault(key, {}), value)
        elif key not in data:
            data[key] = value
        elif isinstance(value[0], str):
            raise ValueError(f"{key} is there twice")
        else:
            data[key] = data[key] + value


PHRASING = load("phrasing")
PLAIN, FIRST = 0.8, 0.6  # of answers, how many begin with the bare definition, and go on with the first facts


@dataclass(frozen=True)
class Concept:
    """Something that has a name, a definition (a noun phrase) and sentences about it."""

    name: str
    kind: str
    area: str
    definition: str
    facts: tuple[str, ...]

    @property
    def bound(self) -> dict[str, str]:
        """What a question about it needs to know."""
        verb = VERB[self.kind]
        does = "do" if self.kind == "many" else "does"
        it = PRONOUN[self.kind]
        return {"x": self.name, "is": verb, "does": does, "it": it, "d": self.definition, "area": self.area}

    @property
    def clause(self) -> str:
        """Its definition, as it stands within a sentence."""
        return f"{self.name} {VERB[self.kind]} {self.definition}"

    @property
    def sentence(self) -> str:
        """Its definition."""
        return f"{capital(self.clause)}."


def lower(sentence: str) -> str:
    """Return the sentence as it stands after an introduction, if its first word is one that loses its capital there."""
    first = sentence.split(" ", 1)[0].rstrip(",")
    return sentence[0].lower() + sentence[1:] if first in OPENERS else sentence


def _concepts(data: Mapping[str, Any]) -> list[Concept]:
    return [
        Concept(name, kind, area, entry[0], tuple(entry[1:]))
        for kind in VERB
        for area, entries in data.get(kind, {}).items()
        for name, entry in entries.items()
    ]


class Knowledge:
    """What is known in one topic, and how it is told."""

    def __init__(self, name: str) -> None:
        data = load(name)
        self.name = name
        self.grammar = Grammar({**PHRASING["rules"], **data.get("rules", {})})
        self.concepts = _concepts(data)
        self.steps: list[tuple[str, list[str]]] = list(data.get("steps", {}).items())
        self.whys: list[tuple[str, list[str]]] = list(data.get("why", {}).items())
        self.quizzes: list[tuple[list[str], list[str]]] = [
            (asked.split("|"), told) for asked, told in data.get("quiz", {}).items()
        ]
        self.scenes: list[dict[str, Any]] = [one for one in data.get("scene", []) for _ in range(one.get("times", 1))]
        self.words: dict[str, list[str]] = data.get("words", {})
        self.tables: dict[str, Any] = data.get("tables", {})
        # What much is known of is asked about more often.
        self.asked = [concept for concept in self.concepts for _ in range(1 + len(concept.facts) // 2)]
        self.areas: dict[str, list[Concept]] = {}
        alike: dict[tuple[str, str], list[Concept]] = {}
        for concept in self.concepts:
            self.areas.setdefault(concept.area, []).append(concept)
            alike.setdefault((concept.area, concept.kind), []).append(concept)
        self.comparable = [concepts for concepts in alike.values() if len(concepts) > 1]
        self.named = {concept.name: concept for concept in self.concepts}
        self.pairs = [(self.named[one], self.named[two]) for one, two in data.get("pairs", [])]

    def say(self, text: str, draw: TextDraw, **bound: str) -> str:
        """Return the text with its slots filled."""
        return prose(self.grammar.expand(text, draw, bound))

    def ask(self, wordings: Sequence[str], draw: TextDraw, **bound: str) -> str:
        """Return a question in one of these wordings; one in small letters keeps them."""
        wording = draw.pick(wordings)
        text = self.say(wording, draw, **bound)
        return text if wording[0].islower() else capital(text)

    def lead(self, concept: Concept, draw: TextDraw) -> str:
        """Return a first sentence: the definition, mostly as it stands."""
        if draw.chance(PLAIN):
            return concept.sentence
        if draw.chance(0.5):
            return self.say("{warm}", draw) + concept.sentence
        return self.say("{lead}", draw) + f"{concept.clause}."

    def about(self, concept: Concept, draw: TextDraw, length: int) -> str:
        """Return the definition and up to `length` facts that follow each other, mostly the first ones."""
        start = 0 if draw.chance(FIRST) else draw.number(0, max(0, len(concept.facts) - length))
        return " ".join([self.lead(concept, draw), *concept.facts[start : start + length]])


@cache
def knowledge(name: str) -> Knowledge:
    """Return what is known in this topic; its file is read once."""
    return Knowledge(name)
