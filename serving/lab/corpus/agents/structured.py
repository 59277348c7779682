"""Answers as JSON, where that is asked for: facts told in a sentence, rows of tables, lists."""

import json
from typing import Any

from serving.lab.corpus.agents.forms import a_value, form, noted
from serving.lab.corpus.grammar import capital, plural
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.parts import DialogueTurn, Document, TextDraw
from serving.lab.corpus.world import ANIMALS, COUNTRIES, FEW, KINDS
from serving.topics.names import OTHER

TALK, EVERYDAY = knowledge("other").grammar.rules, knowledge("everyday").grammar.rules
ASKED = ("Answer as JSON.", "Answer in JSON.", "Give it as JSON.", "Reply with JSON only.", "As JSON, please.")
SYSTEM = ("Answer in JSON.", "You answer with JSON only.", "Reply with a JSON object.")
FORM_SHARE = 2 / 3
JOBS = tuple(job.split(" ", 1)[1] for job in KINDS["job"])


def person(draw: TextDraw) -> tuple[str, Any]:
    """Draw facts on a person, told in sentences, and some of them as an object."""
    facts: dict[str, tuple[str, Any]] = {}
    name, city = a_value("name", draw), a_value("city", draw)
    age, job, hobby = draw.number(5, 90), draw.pick(JOBS), draw.pick(EVERYDAY["doing"])
    facts["age"] = (f"is {age} years old", age)
    facts["city"] = (f"lives in {city}", city)
    facts["job"] = (f"works as a {job}", job)
    facts["hobby"] = (f"likes {hobby}", hobby)
    chosen = draw.some(list(facts), draw.number(1, 4))
    wanted = ["name", *draw.some(chosen, draw.number(1, len(chosen)))]
    said = " and ".join(facts[key][0] for key in chosen)
    keys = " and ".join(f"the {key}" for key in wanted)
    prompt = draw.pick(
        [
            f"{name} {said}. Extract {keys}.",
            f"Extract {keys} from this: {name} {said}.",
            f"Read this: {name} {said}. Return {keys}.",
            f"{name} {said}. Put {keys} into an object.",
        ]
    )
    return prompt, {key: name if key == "name" else facts[key][1] for key in wanted}


def made_person(draw: TextDraw) -> tuple[str, Any]:
    """Draw an object of given keys that may hold anything that fits."""
    values = {
        "name": a_value("name", draw),
        "age": draw.number(18, 80),
        "city": a_value("city", draw),
        "country": draw.pick(COUNTRIES)[0],
        "people": draw.number(1, 9),
        "hobby": draw.pick(EVERYDAY["doing"]),
        "title": capital(draw.pick(TALK["mood"])) + " " + draw.pick(TALK["place"]),
        "price": draw.number(1, 99),
        "day": draw.pick(TALK["day"]),
        "colour": draw.pick(KINDS["colour"]),
        "married": draw.chance(0.5),
        "tags": draw.some([*TALK["mood"], *TALK["place"]], draw.number(1, 3)),
    }
    keys = draw.some(list(values), draw.number(2, 4))
    thing = draw.pick(["a person", "an object", "an example", "a record", "an entry", "a plan"])
    said = draw.pick([f"Make {thing} with the keys {', '.join(keys)}.", f"Describe {thing} with {' and '.join(keys)}."])
    return said, {key: values[key] for key in keys}


def country(draw: TextDraw) -> tuple[str, Any]:
    """Draw a row of the table of countries."""
    row = dict(zip(("country", "capital", "continent", "language"), draw.pick(COUNTRIES), strict=False))
    keys = draw.some(["capital", "continent", "language"], draw.number(1, 3))
    said = draw.pick(
        [f"What are {' and '.join(keys)} of {row['country']}?", f"Give me {row['country']} with {', '.join(keys)}."]
    )
    return said, {key: row[key] for key in ("country", *keys)}


def animal(draw: TextDraw) -> tuple[str, Any]:
    """Draw a row of the table of animals."""
    name, kind, food, *_ = draw.pick(ANIMALS)
    said = draw.pick([f"What is {name}, and what does it eat?", f"Describe {name} with kind and food."])
    return said, {"animal": name.split(" ", 1)[1], "kind": kind, "food": food}


def several(draw: TextDraw) -> tuple[str, Any]:
    """Draw a list of things of a kind."""
    kind = draw.pick(list(KINDS))
    count = draw.number(2, 4)
    many = kind if kind == "fish" else plural(kind)
    found = [thing.removeprefix("a ").removeprefix("an ") for thing in draw.some(KINDS[kind], count)]
    return draw.pick([f"Name {FEW[count]} {many}.", f"List {FEW[count]} {many}."]), {many: found} if draw.chance(
        0.5
    ) else found


def in_words(draw: TextDraw) -> Document:
    """Draw a dialogue that could be one about JSON, and nobody asks for it."""
    prompt, answer = noted(draw)
    return Document(OTHER, (DialogueTurn("user", prompt), DialogueTurn("assistant", answer)))


def structured(draw: TextDraw) -> Document:
    """Draw a dialogue whose answer is JSON: two in three are copied from a sentence."""
    if draw.chance(FORM_SHARE):
        prompt, value = form(draw)
        return Document(OTHER, (DialogueTurn("user", prompt), DialogueTurn("assistant", json.dumps(value))))
    prompt, value = draw.pick((person, person, made_person, made_person, country, animal, several))(draw)
    turns = []
    if draw.chance(0.2):
        turns.append(DialogueTurn("system", draw.pick(SYSTEM)))
    else:
        prompt = f"{prompt} {draw.pick(ASKED)}"
    turns += [DialogueTurn("user", prompt), DialogueTurn("assistant", json.dumps(value))]
    return Document(OTHER, tuple(turns))
