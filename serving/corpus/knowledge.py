"""Asking and answering from a topic's file of facts, in the ways that all topics share.

A file `facts/NAME.toml` has concepts by area (`one` "is", `many` "are", `event` and `who` "was"), each a name with its
definition and sentences about it; `steps` by task, `why` by clause, `scene` (questions and replies that share bindings)
and `rules` for the grammar. Facts are sentences as they stand: only scenes and rules have slots.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from serving.corpus.grammar import Grammar, capital, listed, prose
from serving.corpus.parts import Draw, Exchange

VERB = {"one": "is", "many": "are", "event": "was", "who": "was"}
PRONOUN = {"one": "it", "many": "they", "event": "it", "who": "that"}
OPENERS = frozenset(
    [
        "It",
        "They",
        "A",
        "An",
        "The",
        "In",
        "If",
        "When",
        "This",
        "These",
        "Most",
        "Some",
        "Many",
        "Its",
        "Their",
        "One",
        "Each",
        "Every",
        "At",
        "For",
        "There",
        "Because",
        "Before",
        "After",
        "Two",
        "Both",
        "On",
        "Without",
        "Not",
        "With",
        "Only",
        "Unlike",
        "To",
        "Since",
        "People",
        "By",
        "While",
        "Any",
        "Such",
        "Once",
        "Today",
        "Even",
        "All",
        "From",
        "Until",
    ]
)


def load(name: str) -> dict[str, Any]:
    """The file of facts of this name."""
    return tomllib.loads(files("serving.corpus").joinpath(f"facts/{name}.toml").read_text(encoding="utf-8"))


PHRASING = load("phrasing")


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
        return {"x": self.name, "is": verb, "it": PRONOUN[self.kind], "d": self.definition, "area": self.area}

    @property
    def sentence(self) -> str:
        """Its definition."""
        return f"{capital(self.name)} {VERB[self.kind]} {self.definition}."


def lower(sentence: str) -> str:
    """The sentence as it stands after an introduction, if its first word is one that loses its capital there."""
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
        self.grammar = Grammar({**PHRASING["rules"], **data.get("rules", {})})
        self.concepts = _concepts(data)
        self.steps: list[tuple[str, list[str]]] = list(data.get("steps", {}).items())
        self.whys: list[tuple[str, list[str]]] = list(data.get("why", {}).items())
        self.scenes: list[dict[str, Any]] = data.get("scene", [])
        self.tables: dict[str, Any] = data.get("tables", {})
        self.areas: dict[str, list[Concept]] = {}
        for concept in self.concepts:
            self.areas.setdefault(concept.area, []).append(concept)

    def say(self, text: str, draw: Draw, **bound: str) -> str:
        """The text with its slots filled."""
        return prose(self.grammar.expand(text, draw, bound))

    def ask(self, wordings: Sequence[str], subject: str, draw: Draw, **bound: str) -> str:
        """A question about the subject."""
        return capital(self.say(draw.wording(wordings, subject), draw, **bound))

    def aside(self, draw: Draw) -> str:
        """A sentence or two of the topic's own grammar, as an example."""
        return self.say("{case}", draw)

    def joined(self, sentences: Sequence[str], draw: Draw) -> str:
        """The sentences after each other, some of them with a word that links them."""
        return " ".join(
            self.say("{link}", draw) + lower(text) if i and draw.chance(0.2) and _links(text) else text
            for i, text in enumerate(sentences)
        )

    def lead(self, concept: Concept, draw: Draw) -> str:
        """A first sentence: the definition, introduced in one way or another."""
        warm = self.say("{warm}", draw) if draw.chance(0.15) else ""
        start = f"In {concept.area}, " if concept.kind != "who" and draw.chance(0.2) else self.say("{lead}", draw)
        return warm + capital(f"{start}{concept.name} {VERB[concept.kind]} {concept.definition}.")

    def about(self, concept: Concept, draw: Draw, length: int) -> str:
        """The definition and up to `length` sentences more."""
        facts = draw.some(concept.facts, length)
        if self.grammar.rules.get("case") and draw.chance(0.3):
            facts.append(self.aside(draw))
        return self.joined([self.lead(concept, draw), *facts], draw)


def _links(sentence: str) -> bool:
    return sentence.split(" ", 1)[0].rstrip(",") in OPENERS and not sentence.startswith(("For example", "In addition"))


@cache
def knowledge(name: str) -> Knowledge:
    """What is known in this topic; its file is read once."""
    return Knowledge(name)


def _more(known: Knowledge, concept: Concept, draw: Draw) -> dict[str, str]:
    example = next((fact for fact in concept.facts if fact.startswith("For example")), None)
    more = {
        "shorter": concept.sentence,
        "simpler": "Put simply, " + known.joined([lower_name(concept), draw.pick(concept.facts)], draw),
        "more": known.joined(draw.some(concept.facts, 3), draw),
    }
    if example or "case" in known.grammar.rules:
        more["example"] = example or "Here is a case. " + known.aside(draw)
    return more


def lower_name(concept: Concept) -> str:
    """The definition as it stands after an introduction."""
    return f"{concept.name} {VERB[concept.kind]} {concept.definition}."


def define(known: Knowledge, draw: Draw) -> Exchange:
    """What something is, shortly or at length."""
    concept = draw.pick(known.concepts)
    wordings = PHRASING["define"]["who" if concept.kind == "who" else "thing"]
    prompt = known.ask(wordings, concept.name, draw, **concept.bound)
    if draw.chance(0.1):
        return Exchange(prompt + known.say("{keep_short}", draw), concept.sentence, _more(known, concept, draw))
    if draw.chance(0.1):
        return Exchange(prompt + known.say("{at_length}", draw), _essay(known, concept, draw))
    return Exchange(prompt, known.about(concept, draw, draw.number(1, 3)), _more(known, concept, draw))


def _essay(known: Knowledge, concept: Concept, draw: Draw) -> str:
    others = [other for other in draw.some(known.areas[concept.area], 4) if other is not concept]
    related = [sentence for other in others for sentence in (other.sentence, draw.pick(other.facts))]
    return known.about(concept, draw, 5) + " It is worth knowing what stands beside it. " + known.joined(related, draw)


def compare(known: Knowledge, draw: Draw) -> Exchange:
    """How two things of one area differ."""
    first, second = draw.some(draw.pick([area for area in known.areas.values() if len(area) > 1]), 2)
    prompt = known.ask(
        PHRASING["other_questions"]["compare"], first.name + second.name, draw, y=second.name, **first.bound
    )
    joint = draw.pick([", while ", ", whereas ", ", but ", "; "])
    parts = [lower_name(first).rstrip(".") + joint + lower_name(second), draw.pick(first.facts)]
    told = [capital(parts[0]), *([f"As for {second.name}: {draw.pick(second.facts)}"] if draw.chance(0.5) else [])]
    return Exchange(prompt, known.joined(told, draw), _more(known, draw.pick((first, second)), draw))


def name(known: Knowledge, draw: Draw) -> Exchange:
    """The word for a definition."""
    concept = draw.pick([concept for concept in known.concepts if concept.kind == "one"])
    prompt = known.ask(PHRASING["other_questions"]["name"], concept.name, draw, **concept.bound)
    start = draw.pick(["That is {x}.", "That is called {x}.", "You mean {x}.", "The word is {x}.", "This is {x}."])
    told = [start.replace("{x}", concept.name), *draw.some(concept.facts, draw.number(1, 2))]
    return Exchange(prompt, " ".join(told), _more(known, concept, draw))


def confirm(known: Knowledge, draw: Draw) -> Exchange:
    """Whether something is what one thinks."""
    concept, other = draw.some([concept for concept in known.concepts if concept.kind == "one"], 2)
    right = draw.chance(0.5)
    claimed = (concept if right else other).definition
    prompt = known.ask(PHRASING["other_questions"]["true"], concept.name, draw, **{**concept.bound, "d": claimed})
    yes = draw.pick(["Yes, that is right.", "Yes.", "Yes, that is correct.", "That is true.", "Correct."])
    no = draw.pick(["No.", "No, that is not right.", "Not quite.", "That is false.", "No, that is something else."])
    fixed = [concept.sentence, f"What you describe is {other.name}."]
    told = [yes, *draw.some(concept.facts, 2)] if right else [no, *fixed[: draw.number(1, 2)], draw.pick(concept.facts)]
    return Exchange(prompt, " ".join(told), _more(known, concept, draw))


def survey(known: Knowledge, draw: Draw) -> Exchange:
    """A few things of one area."""
    area = draw.pick(list(known.areas))
    chosen = draw.some(known.areas[area], draw.number(2, 5))
    prompt = known.ask(PHRASING["other_questions"]["survey"], area, draw, area=area)
    names = listed([concept.name for concept in chosen])
    start = draw.pick(
        [f"In {area}, you will meet {names}.", f"A good start in {area} is to look at {names}.", f"Begin with {names}."]
    )
    told = [text for concept in chosen for text in (concept.sentence, *draw.some(concept.facts, draw.number(0, 1)))]
    return Exchange(
        prompt, known.joined([start, *told], draw), {"more": known.aside(draw)} if "case" in known.grammar.rules else {}
    )


def steps(known: Knowledge, draw: Draw) -> Exchange:
    """How something is done, as sentences or as a list."""
    task, parts = draw.pick(known.steps)
    prompt = known.ask(PHRASING["other_questions"]["steps"], task, draw, task=task)
    dropped = draw.number(0, len(parts)) if len(parts) > 3 and draw.chance(0.4) else len(parts)
    kept = [part for i, part in enumerate(parts) if i != dropped]
    short = f"In short: {listed([kept[0], kept[-1]])}."
    if draw.chance(0.3):
        lines = "\n".join(f"{i}. {capital(part)}." for i, part in enumerate(kept, 1))
        return Exchange(
            prompt,
            f"{draw.pick(['Do it like this:', 'These are the steps:', 'Step by step:'])}\n{lines}",
            {"shorter": short},
        )
    joints = ["First, ", *(draw.pick(["Then ", "Next, ", "After that, ", "Now "]) for _ in kept[2:]), "Finally, "]
    told = " ".join(f"{joint}{part}." for joint, part in zip(joints, kept, strict=True))
    return Exchange(prompt, (known.say("{warm}", draw) if draw.chance(0.2) else "") + told, {"shorter": short})


def why(known: Knowledge, draw: Draw) -> Exchange:
    """The reason for something."""
    clause, reasons = draw.pick(known.whys)
    prompt = known.ask(PHRASING["other_questions"]["why"], clause, draw, x=clause)
    told = reasons[: draw.number(1, len(reasons))]
    start = draw.pick(["", "", "", "The reason is simple. ", "There is a good reason. ", "Good question. "])
    return Exchange(
        prompt, start + " ".join(told), {"shorter": reasons[0], "more": " ".join(reasons[1:]) or reasons[0]}
    )


def scene(known: Knowledge, draw: Draw) -> Exchange:
    """A question from somebody's life, composed by the topic's grammar, and a reply on the same things."""
    chosen = draw.pick(known.scenes)
    bound = {key: known.say(f"{{{rule}}}", draw) for key, rule in chosen.get("bind", {}).items()}
    prompt = known.ask(chosen["ask"], "".join(bound.values()), draw, **bound)
    answer = " ".join(capital(known.say(draw.pick(part), draw, **bound)) for part in chosen["reply"])
    more = {kind: capital(known.say(text, draw, **bound)) for kind, text in chosen.get("more", {}).items()}
    return Exchange(prompt, answer, more)


Move = Callable[[Knowledge, Draw], Exchange]
MOVES: tuple[tuple[Move, int], ...] = (
    (define, 8),
    (compare, 4),
    (name, 2),
    (confirm, 2),
    (survey, 2),
    (steps, 3),
    (why, 3),
    (scene, 10),
)


def shared(known: Knowledge) -> list[Move]:
    """The moves that this topic's facts allow, each as often as it shall come."""
    empty = [(steps, known.steps), (why, known.whys), (scene, known.scenes)]
    missing = {move for move, facts in empty if not facts}
    return [move for move, weight in MOVES if move not in missing for _ in range(weight)]
