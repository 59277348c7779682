"""Puzzles about islanders, orders and sets, with computed answers."""

from itertools import pairwise

from serving.lab.corpus.grammar import capital, listed
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.parts import Exchange, TextDraw

WORDS = knowledge("logic").words
ORDERS = (
    ("taller", "tallest", "shortest"),
    ("older", "oldest", "youngest"),
    ("faster", "fastest", "slowest"),
    ("richer", "richest", "poorest"),
)


def asked(text: str, draw: TextDraw) -> str:
    """Return the puzzle, put in one way or another."""
    return draw.pick(WORDS["asked"]).replace("{p}", text)


def says(speaker: str, about: str, knight: bool) -> str:
    """Return what an islander states about another."""
    return f'{speaker} says: "{about} is a {"knight" if knight else "knave"}."'


def knights(draw: TextDraw) -> Exchange:
    """Knights tell the truth and knaves lie; one islander is known, and the statements settle the rest."""
    names = draw.some(WORDS["people"], draw.number(2, 3))
    truth = {name: draw.chance(0.5) for name in names}
    statements = [says(one, two, truth[one] == truth[two]) for one, two in pairwise(names)]
    kind = {True: "knight", False: "knave"}
    known = names[0]
    intro = draw.pick(
        [
            "On an island, knights always tell the truth and knaves always lie.",
            "Knights always tell the truth, and knaves always lie.",
        ]
    )
    text = f"{intro} {' '.join(statements)} We know that {known} is a {kind[truth[known]]}. What are the others?"
    steps = []
    for one, two in pairwise(names):
        verb = "tells the truth" if truth[one] else "lies"
        steps.append(f"{one} is a {kind[truth[one]]} and {verb}, so {two} is a {kind[truth[two]]}.")
    result = listed([f"{name} is a {kind[truth[name]]}" for name in names])
    more = {
        "shorter": f"{result}.",
        "why": "A knight can say only what is true, and a knave only what is false.",
        "check": f"Yes: {result}, and each statement fits.",
    }
    return Exchange(asked(text, draw), " ".join(steps), more)


def ordering(draw: TextDraw) -> Exchange:
    """Draw an exchange on a linear order from comparisons of neighbours."""
    names = draw.some(WORDS["people"], draw.number(3, 5))
    comparative, most, least = draw.pick(ORDERS)
    facts = [f"{one} is {comparative} than {two}." for one, two in pairwise(names)]
    wanted = draw.pick([most, least])
    answer = names[0] if wanted == most else names[-1]
    text = f"{' '.join(draw.some(facts, len(facts)))} Who is the {wanted}?"
    told = f"From the {most} to the {least}, the order is {', '.join(names)}. So {answer} is the {wanted}."
    if draw.chance(0.3):
        told = f"{answer} is the {wanted}. The whole order, from the {most} to the {least}, is {', '.join(names)}."
    return Exchange(
        asked(text, draw),
        told,
        {
            "shorter": f"{answer}.",
            "why": f"Because {facts[0][:-1]}, and so on down the line.",
            "check": f"Yes: nobody stands beyond {answer}.",
        },
    )


def member(draw: TextDraw) -> Exchange:
    """Draw an exchange on a union, an intersection or a difference of two small sets."""
    pool = [str(i) for i in range(1, 13)]
    one, two = (sorted(draw.some(pool, draw.number(3, 5)), key=int) for _ in range(2))
    name, rule, found = draw.pick(
        [
            ("union", "at least one of the two sets", set(one) | set(two)),
            ("intersection", "both sets", set(one) & set(two)),
            ("difference", "the first set but not to the second", set(one) - set(two)),
        ]
    )
    elements = sorted(found, key=int)
    of = f"the {name} of S and T"
    text = f"Let S contain {listed(one)}, and let T contain {listed(two)}. What is {of}?"
    holds = f"contains {listed(elements)}" if elements else "is empty"
    told = f"{capital(of)} has the elements that belong to {rule}. So it {holds}."
    return Exchange(
        asked(text, draw),
        told,
        {"shorter": f"It {holds}.", "why": f"Because an element of the {name} must belong to {rule}."},
    )
