"""Short pieces of Python and SQL with varying names, and what they do in words."""

from typing import Any

from serving.lab.corpus.grammar import prose
from serving.lab.corpus.knowledge import load
from serving.lab.corpus.parts import Exchange, TextDraw

DATA: dict[str, Any] = load("snippets")

NAMES: list[str] = DATA["names"]
COLUMNS: list[str] = DATA["columns"]
FUNCTIONS: list[str] = DATA["functions"]
PYTHON: list[dict[str, str]] = DATA["python"]
SQL: list[dict[str, str]] = DATA["sql"]
ASKED: list[str] = DATA["asked"]
SAID: list[str] = DATA["said"]


def snippet(draw: TextDraw) -> Exchange:
    """Draw a small task and the code for it."""
    language, table = ("Python", PYTHON) if draw.chance(0.8) else ("SQL", SQL)
    chosen = draw.pick(table)
    remark = chosen["remark"]
    function = draw.pick(FUNCTIONS)
    slots = {
        "s": draw.pick(NAMES),
        "f": function,
        "f.cap": function.capitalize(),
        "n": str(draw.number(2, 60)),
        "c": draw.pick(COLUMNS),
    }
    task, code = prose(_filled(chosen["task"], slots)), _filled(chosen["code"], slots)
    prompt = draw.pick(ASKED).replace("{t}", task).replace("{l}", language)
    block = f"```{language.lower()}\n{code}\n```"
    more = {"shorter": block, "why": remark, "more": f"{remark} Test it with an empty list of {slots['s']} too."}
    return Exchange(prompt, f"{draw.pick(SAID)}\n{block}\n{remark if draw.chance(0.8) else ''}".rstrip(), more)


def _filled(text: str, slots: dict[str, str]) -> str:
    for slot, value in slots.items():
        text = text.replace(f"{{{slot}}}", value)
    return text
