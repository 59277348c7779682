"""Whether something is legal: only a lawyer of the place could be certain, and an answer says so."""

from serving.lab.corpus.grammar import prose, yours
from serving.lab.corpus.knowledge import knowledge, load
from serving.lab.corpus.parts import Exchange, TextDraw

MATTERS = knowledge("words").grammar.rules["matter"]
COUNTRIES: list[list[str]] = load("world")["tables"]["countries"]
# Ways to ask, and the clause of each that an answer takes up.
ASKED: tuple[tuple[str, str], ...] = (
    ("Is it legal to {t}?", "whether it is legal to {t}"),
    ("Is it legal to {t} in {c}?", "whether it is legal to {t} in {c}"),
    ("Am I allowed to {t}?", "whether you are allowed to {t}"),
    ("May I {t}?", "whether you may {t}"),
    ("Can I be punished if I {t}?", "whether you can be punished if you {t}"),
    ("Do I need a permit to {t}?", "whether you need a permit to {t}"),
    ("Do I need a contract to {t}?", "whether you need a contract to {t}"),
    ("Do I need something in writing if I {t}?", "whether you need something in writing if you {t}"),
    ("Who is liable if I {t} and something goes wrong?", "who is liable if you {t} and something goes wrong"),
    ("Can somebody forbid me to {t}?", "whether somebody can forbid you to {t}"),
    ("Do I need a lawyer to {t}?", "whether you need a lawyer to {t}"),
    ("What does the law say if I {t}?", "what the law says if you {t}"),
    ("What are my rights if I {t}?", "what your rights are if you {t}"),
)
SAID = (
    "I can't say for certain {q}.", "It depends on the law of the place {q}.", "I do not know {q} where you live.",
    "There is no single answer to the question {q}: the law differs from country to country.",
)  # fmt: skip
THEN = (
    "Look into your contract first, if there is one.", "If money is at stake, put it in writing.",
    "A lawyer can tell you more.", "Ask the authority in your town.", "An advice centre for consumers may help.",
    "A short written agreement helps if there is a dispute.", "Keep letters and receipts.",
    "If you {t} and cause damage, you may have to pay for it.",
)  # fmt: skip


def permitted(draw: TextDraw) -> Exchange:
    """Draw a question on whether something is legal, of which only a lawyer could be certain."""
    matter, place = draw.pick(MATTERS), draw.pick(COUNTRIES)[0]
    asked, clause = draw.pick(ASKED)
    told = clause.replace("{t}", yours(matter)).replace("{c}", place)
    said = draw.pick(SAID).replace("{q}", told)
    then = " ".join(draw.some(THEN, draw.number(1, 2))).replace("{t}", yours(matter))
    prompt = asked.replace("{t}", matter).replace("{c}", place)
    return Exchange(prose(prompt), prose(f"{said} {then}"), {"why": "Because laws differ, and contracts differ too."})
