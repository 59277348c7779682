"""Answers as JSON that are copied from a sentence: bookings, orders, mails, by keys that are asked for or by none."""

import re
from typing import Any

from serving.lab.corpus.grammar import capital, listed, prose
from serving.lab.corpus.knowledge import load
from serving.lab.corpus.parts import TextDraw
from serving.lab.corpus.unknown import made_up

FACTS = load("forms")
VALUES: dict[str, list[str]] = FACTS["values"]
FIELDS: dict[str, dict[str, Any]] = FACTS["fields"]
FORMS: dict[str, list[str]] = FACTS["forms"]
SLOT = re.compile(r"{(\w+)}")
MADE_UP, USUAL, LED, SMALL = 0.2, 0.6, 0.15, 0.1
NAMES = ("city", "name", "surname", "firm")  # of these there are more than anybody can list


def a_value(kind: str, draw: TextDraw) -> str:
    """Draw one of the values of this kind; of names, at times one that nobody has."""
    if kind in NAMES and draw.chance(MADE_UP):
        return made_up(draw).split(" ")[0].capitalize()
    return draw.pick(VALUES[kind])


def in_small_letters(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as they are where somebody types without capitals: words are passed on as they stand."""
    return {name: value.lower() if isinstance(value, str) else value for name, value in values.items()}


def form(draw: TextDraw) -> tuple[str, dict[str, Any]]:
    """Draw a sentence with the wish to have it as JSON, and the object wanted, its keys in the order asked for."""
    told, values = _sentence(draw)
    if draw.chance(SMALL):  # typed without capitals
        told, values = told.lower(), in_small_letters(values)
    if draw.chance(LED):
        told = draw.pick(FORMS["lead"]) + told
    if draw.chance(0.4):
        return f"{told} {draw.pick(FORMS['without_keys'])}", _keyed(values, list(values), draw)
    wanted = _keyed(values, draw.some(list(values), draw.number(1, len(values))), draw)
    return _asked(told, list(wanted), draw), wanted


def noted(draw: TextDraw) -> tuple[str, str]:
    """Draw a sentence of which nobody asks for JSON, and a reply in words."""
    return _sentence(draw)[0], draw.pick(FORMS["noted"])


def _sentence(draw: TextDraw) -> tuple[str, dict[str, Any]]:
    """Draw a sentence, and the values of the fields in it."""
    said = draw.pick(FORMS["said"])
    values = {name: _value(FIELDS[name], draw) for name in SLOT.findall(said)}
    return capital(prose(SLOT.sub(lambda slot: str(values[slot[1]]), said))), values


def _value(field: dict[str, Any], draw: TextDraw) -> str | int:
    if "number" in field:
        return draw.number(*field["number"])
    if "time" in field:
        return f"{draw.number(0, 23):02}:{draw.pick(['00', '15', '30', '45', '10', '20'])}"
    if "date" in field:
        day, month = draw.number(1, 28), draw.number(1, 12)
        return draw.pick([f"{day} {VALUES['month'][month - 1]}", f"2026-{month:02}-{day:02}"])
    return a_value(field["value"], draw)


def _keyed(values: dict[str, Any], names: list[str], draw: TextDraw) -> dict[str, Any]:
    """Return the values of these fields by keys, no key twice."""
    found: dict[str, Any] = {}
    for name in names:
        keys = [key for key in FIELDS[name]["keys"] if key not in found]
        found[keys[0] if draw.chance(USUAL) else draw.pick(keys)] = values[name]
    return found


def _asked(told: str, keys: list[str], draw: TextDraw) -> str:
    """Return the sentence, and before or after it the wish for these keys."""
    said = {"keys": listed(keys), "the_keys": listed([f"the {key}" for key in keys]), "list": ", ".join(keys)}
    wish = SLOT.sub(lambda slot: said[slot[1]], draw.pick(FORMS["with_keys"]))
    if draw.chance(0.25) and wish[-1] in ".?":
        return f"{wish} {told}"
    return f"{told} {wish}"
