"""Short notes, letters, diary entries and recipes."""

from typing import Any

from serving.lab.corpus.grammar import Grammar, capital, prose
from serving.lab.corpus.knowledge import load
from serving.lab.corpus.parts import TextDraw
from serving.lab.corpus.texts.stories import person

DATA: dict[str, Any] = load("notes")
GRAMMAR = Grammar(DATA["rules"])


def note(draw: TextDraw) -> str:
    """Draw a letter, a short note or a diary entry."""
    form = draw.pick(DATA["form"])
    bound = person(draw, "")
    bound |= person(draw, "f", other_than=bound["name"])
    for key, rule in form.get("bind", {}).items():
        bound[key] = GRAMMAR.expand(f"{{{rule}}}", draw, bound)
    parts = (prose(GRAMMAR.expand(draw.pick(part), draw, bound)) for part in form["parts"])
    body = " ".join(capital(part) for part in parts if part)
    head, foot = (prose(GRAMMAR.expand(draw.pick(form[end]), draw, bound)) for end in ("head", "foot"))
    return "\n\n".join(part for part in (head, body, foot) if part)


def recipe(draw: TextDraw) -> str:
    """Draw a recipe: what is needed, and what to do with it."""
    dish, needed, steps = draw.pick(DATA["recipes"])
    people = draw.pick(("two", "four"))
    if draw.chance(0.5):
        lines = "\n".join(f"- {item}" for item in needed)
        numbered = "\n".join(f"{i}. {step}" for i, step in enumerate(steps, 1))
        return f"{dish} for {people}\n\nYou need:\n{lines}\n\n{numbered}"
    return f"{dish}\n\nFor {people} people you need {', '.join(needed[:-1])} and {needed[-1]}. {' '.join(steps)}"
