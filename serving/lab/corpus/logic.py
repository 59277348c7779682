"""Logic: its words, and puzzles whose answers are computed."""

from collections.abc import Callable
from itertools import pairwise, product

from serving.lab.corpus.grammar import capital, listed, prose
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.members import acquaintance, belonging
from serving.lab.corpus.moves import shared
from serving.lab.corpus.parts import Exchange, TextDraw
from serving.lab.corpus.puzzles import asked, knights, member, ordering

KNOWN = knowledge("logic")
KINDS = KNOWN.words["kinds"]
TRAITS = KNOWN.words["traits"]
EVENTS = KNOWN.words["events"]


def negated(event: str) -> str:
    """Return the negation of one of `EVENTS`."""
    return event.replace(" is ", " is not ") if " is " in event else f"it is not true that {event}"


def syllogism(draw: TextDraw) -> Exchange:
    """Two premises and a conclusion that follows, or one that does not."""
    p, q, r = draw.some(KINDS, 3)
    trait = draw.pick(TRAITS)
    premises, claim, valid, why = draw.pick(
        [
            (
                (f"all {p} are {q}", f"all {q} are {r}"),
                f"all {p} are {r}",
                True,
                f"whatever belongs to the {p} belongs to the {q}, and so to the {r}",
            ),
            (
                (f"all {p} are {q}", f"no {q} are {r}"),
                f"no {p} are {r}",
                True,
                f"all {p} are among the {q}, and none of those are {r}",
            ),
            (
                (f"some {p} are {q}", f"all {q} are {trait}"),
                f"some {p} are {trait}",
                True,
                f"the {p} that are {q} must be {trait}",
            ),
            (
                (f"all {p} are {trait}", f"all {q} are {trait}"),
                f"all {p} are {q}",
                False,
                f"{p} and {q} may share a trait without being the same",
            ),
            (
                (f"all {p} are {q}", f"some {q} are {r}"),
                f"some {p} are {r}",
                False,
                f"the {q} that are {r} need not be {p}",
            ),
            (
                (f"all {p} are {q}", f"some {q} are {trait}"),
                f"all {q} are {p}",
                False,
                "the first premise cannot be turned around",
            ),
        ]
    )
    text = f"{capital(premises[0])}. {capital(premises[1])}. Does it follow that {claim}?"
    follows = (
        draw.pick(["Yes, it follows", "Yes, the conclusion is valid"])
        if valid
        else draw.pick(["No, it does not follow", "No, the inference is invalid"])
    )
    extra = " The names do not matter, only the form." if draw.chance(0.3) else ""
    more = {
        "why": f"Because {why}.",
        "shorter": "It follows." if valid else "It does not follow.",
        "simpler": f"Draw circles for the {p} and the {q}. Then you see it: {why}.",
    }
    return Exchange(asked(text, draw), f"{follows}, because {why}.{extra}", more)


def conditional(draw: TextDraw) -> Exchange:
    """Draw an exchange on an implication and a second premise: the two valid rules and the two fallacies."""
    p, q = draw.some(EVENTS, 2)
    second, claim, valid, rule = draw.pick(
        [
            (p, q, True, "This is modus ponens"),
            (negated(q), negated(p), True, "This is modus tollens"),
            (q, p, False, "This would be the fallacy of affirming the consequent"),
            (negated(p), negated(q), False, "This would be the fallacy of denying the antecedent"),
        ]
    )
    text = f"If {p}, then {q}. We know that {second}. Can we conclude that {claim}?"
    told = f"Yes, we can conclude that {claim}." if valid else f"No, we cannot conclude that {claim}."
    reason = "The implication leaves no other case." if valid else "There may be another reason."
    more = {
        "why": f"{rule}. {reason}",
        "shorter": "Yes." if valid else "No.",
        "example": "Compare: if it is a dog, it is an animal. Not every animal is a dog.",
    }
    return Exchange(asked(text, draw), f"{told} {rule}. {reason}", more)


def chain(draw: TextDraw) -> Exchange:
    """Draw an exchange on a chain of implications and where it leads."""
    events = draw.some(EVENTS, draw.number(3, 5))
    links = [f"If {p}, then {q}." for p, q in pairwise(events)]
    shuffled = draw.some(links, len(links))
    text = f"{' '.join(shuffled)} Now {events[0]}. What follows?"
    told = f"Since {events[0]}, {events[1]}. " + " ".join(f"From this it follows that {event}." for event in events[2:])
    told += f" So in the end {events[-1]}." if draw.chance(0.5) else ""
    more = {
        "shorter": f"It follows that {listed(events[1:])}.",
        "why": "Because we apply modus ponens again and again.",
    }
    return Exchange(asked(text, draw), told, more)


CONNECTIVES: dict[str, Callable[[bool, bool], bool]] = {
    "{0} and {1}": lambda p, q: p and q,
    "{0} or {1}": lambda p, q: p or q,
    "if {0} then {1}": lambda p, q: not p or q,
    "{0} and not {1}": lambda p, q: p and not q,
    "not {0} or {1}": lambda p, q: not p or q,
    "{0} if and only if {1}": lambda p, q: p == q,
    "not {0} and not {1}": lambda p, q: not p and not q,
}


def table(draw: TextDraw) -> Exchange:
    """Draw an exchange on the value of a formula, or its whole truth table."""
    shape, value = draw.pick(list(CONNECTIVES.items()))
    letters = sorted(draw.some("pqrst", 2))
    formula = shape.format(*letters)
    rows = [(p, q, value(p, q)) for p, q in product((True, False), repeat=2)]
    words = {True: "true", False: "false"}
    if draw.chance(0.5):
        p, q, result = draw.pick(rows)
        text = f"Let {letters[0]} be {words[p]} and {letters[1]} be {words[q]}. What is the value of: {formula}?"
        told = f"With {letters[0]} {words[p]} and {letters[1]} {words[q]}, the formula {formula} is {words[result]}."
        return Exchange(
            asked(text, draw),
            told,
            {
                "shorter": f"It is {words[result]}.",
                "check": f"Yes, its truth table has {sum(row[2] for row in rows)} true rows out of 4.",
            },
        )
    lines = [
        f"If {letters[0]} is {words[p]} and {letters[1]} is {words[q]}, it is {words[result]}." for p, q, result in rows
    ]
    true = sum(row[2] for row in rows)
    told = f"{' '.join(lines)} So {true} of the 4 rows {'is' if true == 1 else 'are'} true."
    return Exchange(
        asked(f"What is the truth table of: {formula}?", draw),
        told,
        {
            "shorter": f"It is true in {true} of 4 rows.",
            "why": "Each letter can be true or false, so there are four rows.",
        },
    )


def negation(draw: TextDraw) -> Exchange:
    """Draw an exchange on the negation of a quantified sentence."""
    kind, trait = draw.pick(KINDS), draw.pick(TRAITS)
    one, other = draw.pick(
        [
            (f"all {kind} are {trait}", f"some {kind} are not {trait}"),
            (f"some {kind} are {trait}", f"no {kind} are {trait}"),
            (f"no {kind} are {trait}", f"some {kind} are {trait}"),
            (f"some {kind} are not {trait}", f"all {kind} are {trait}"),
        ]
    )
    text = draw.pick(
        [
            "What is the negation of: {s}?",
            "Negate this sentence: {s}.",
            "Which sentence is true exactly when this is false: {s}?",
        ]
    )
    told = f"The negation is: {other}."
    extra = draw.pick(
        [
            "",
            f" If it is false that {one}, then {other}.",
            " The two can never be true together.",
            " Exactly one of the two is true.",
        ]
    )
    more = {
        "why": "One case is enough to deny a claim about all, and to deny a claim about some, there must be none.",
        "shorter": f"{capital(other)}.",
    }
    return Exchange(asked(text.replace("{s}", one), draw), prose(told + extra), more)


PUZZLES = (
    *(belonging,) * 3,
    acquaintance,
    syllogism,
    syllogism,
    conditional,
    chain,
    table,
    knights,
    ordering,
    member,
    negation,
)
MOVES = shared(KNOWN)


def exchange(draw: TextDraw) -> Exchange:
    """One question on logic and its answer."""
    return draw.pick(PUZZLES)(draw) if draw.chance(0.65) else draw.pick(MOVES)(KNOWN, draw)
