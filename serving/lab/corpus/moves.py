"""Asking and answering from what is known, in the ways that all topics share: a move makes one exchange."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from typing import Any

from serving.lab.corpus.grammar import capital, listed
from serving.lab.corpus.knowledge import PHRASING, Concept, Knowledge, knowledge, lower
from serving.lab.corpus.parts import Exchange, TextDraw


def _more(concept: Concept, told: str) -> dict[str, str]:
    fresh = [fact for fact in concept.facts if fact not in told]
    example = next((fact for fact in fresh if fact.startswith("For example")), None)
    more = {
        "shorter": concept.sentence,
        "simpler": f"Put simply, {concept.clause}. {concept.facts[0]}",
    }
    if fresh:
        more["more"] = " ".join(fresh[:3])
    if example:
        more["example"] = example
    return more


def define(known: Knowledge, draw: TextDraw) -> Exchange:
    """Draw an exchange on what something is, shortly or at length."""
    return defined(known, draw.pick(known.asked), draw)


def defined(known: Knowledge, concept: Concept, draw: TextDraw) -> Exchange:
    """Draw an exchange on what this concept is."""
    wordings = PHRASING["define"]["who" if concept.kind == "who" else "thing"]
    prompt = known.ask(wordings, draw, **concept.bound)
    whole = prompt if prompt.endswith((".", "?")) else f"{prompt}?"
    if draw.chance(0.1):
        return Exchange(whole + known.say("{keep_short}", draw), concept.sentence, _more(concept, ""))
    if draw.chance(0.1):
        return Exchange(whole + known.say("{at_length}", draw), _essay(known, concept, draw))
    answer = known.about(concept, draw, draw.number(1, 3))
    return Exchange(prompt, answer, _more(concept, answer))


def _essay(known: Knowledge, concept: Concept, draw: TextDraw) -> str:
    others = [other for other in draw.some(known.areas[concept.area], 4) if other is not concept]
    related = [sentence for other in others for sentence in (other.sentence, other.facts[0])]
    return known.about(concept, draw, 5) + " It is worth knowing what stands beside it. " + " ".join(related)


def compare(known: Knowledge, draw: TextDraw) -> Exchange:
    """How two things differ: mostly two that people mix up, else any two of one area."""
    pairs = known.pairs if known.pairs and draw.chance(PAIRED) else known.comparable
    first, second = draw.some(draw.pick(pairs), 2)
    prompt = known.ask(PHRASING["other_questions"]["compare"], draw, y=second.name, **first.bound)
    joint = draw.pick([", while ", ", but "])
    told = [capital(first.clause + joint + second.clause + ".")]
    fact = draw.pick(second.facts)
    if draw.chance(0.6) and fact.split(" ", 1)[0] in ("It", "They"):
        told.append(f"As for {second.name}, {lower(fact)}")
    return Exchange(prompt, " ".join(told), {"shorter": told[0]})


def name(known: Knowledge, draw: TextDraw) -> Exchange:
    """Draw an exchange on the word for a definition."""
    concept = draw.pick(_singular(known))
    prompt = known.ask(PHRASING["other_questions"]["name"], draw, **concept.bound)
    start = draw.pick(["That is {x}.", "That is called {x}.", "You mean {x}.", "The word is {x}.", "This is {x}."])
    told = [start.replace("{x}", concept.name), *concept.facts[: draw.number(1, 2)]]
    answer = " ".join(told)
    return Exchange(prompt, answer, _more(concept, answer))


def confirm(known: Knowledge, draw: TextDraw) -> Exchange:
    """Tell whether something is what one thinks; what it is not is a thing of a topic that is far away."""
    concept, other = (draw.pick(_singular(one)) for one in (known, knowledge(FAR.get(known.name, "math"))))
    right = draw.chance(0.5)
    claimed = (concept if right else other).definition
    prompt = known.ask(PHRASING["other_questions"]["true"], draw, **{**concept.bound, "d": claimed})
    yes = draw.pick(["Yes, that is right.", "Yes.", "Yes, that is correct.", "That is true.", "Correct."])
    no = draw.pick(["No.", "No, that is not right.", "Not quite.", "That is false.", "No, that is something else."])
    fixed = [no, concept.sentence, f"What you describe is {other.name}."]
    answer = " ".join([yes, *concept.facts[: draw.number(1, 2)]] if right else fixed[: draw.number(2, 3)])
    return Exchange(prompt, answer, _more(concept, answer))


def _singular(known: Knowledge) -> list[Concept]:
    return [concept for concept in known.concepts if concept.kind == "one"]


def survey(known: Knowledge, draw: TextDraw) -> Exchange:
    """Draw an exchange on a few things of one area."""
    area = draw.pick(list(known.areas))
    chosen = draw.some(known.areas[area], draw.number(2, 3))
    prompt = known.ask(PHRASING["other_questions"]["survey"], draw, area=area)
    names = listed([concept.name for concept in chosen])
    start = draw.pick(
        [f"In {area}, you will meet {names}.", f"A good start in {area} is to look at {names}.", f"Begin with {names}."]
    )
    told = " ".join([start, *(concept.sentence for concept in chosen)])
    return Exchange(prompt, told, {"more": " ".join([chosen[0].sentence, *chosen[0].facts[:2]])})


def steps(known: Knowledge, draw: TextDraw) -> Exchange:
    """How something is done, as sentences or as a list."""
    task, parts = draw.pick(known.steps)
    prompt = known.ask(PHRASING["other_questions"]["steps"], draw, task=task)
    short = {"shorter": f"{capital(listed(parts))}."}
    if draw.chance(0.3):
        lines = "\n".join(f"{i}. {capital(part)}." for i, part in enumerate(parts, 1))
        start = draw.pick(["Do it like this:", "These are the steps:", "Step by step:"])
        return Exchange(prompt, f"{start}\n{lines}", short)
    joints = ["First, ", *islice(cycle(["Then ", "Next, ", "After that, "]), len(parts) - 2), "Finally, "]
    told = " ".join(f"{joint}{part}." for joint, part in zip(joints, parts, strict=True))
    return Exchange(prompt, (known.say("{warm}", draw) if draw.chance(0.2) else "") + told, short)


def why(known: Knowledge, draw: TextDraw) -> Exchange:
    """Draw an exchange on the reason for something."""
    clause, reasons = draw.pick(known.whys)
    return explained(known, clause, reasons, draw)


def explained(known: Knowledge, clause: str, reasons: list[str], draw: TextDraw) -> Exchange:
    """Draw an exchange on why this is so."""
    plain = asked_why(clause) if draw.chance(0.5) else ""
    prompt = plain or known.ask(PHRASING["other_questions"]["why"], draw, x=clause)
    told = reasons[: draw.number(1, len(reasons))]
    start = draw.pick(["", "", "", "The reason is simple. ", "There is a good reason. ", "Good question. "])
    return Exchange(
        prompt, start + " ".join(told), {"shorter": reasons[0], "more": " ".join(reasons[1:]) or reasons[0]}
    )


def quiz(known: Knowledge, draw: TextDraw) -> Exchange:
    """Draw a plain question that has a plain answer, told whole: any of its sentences may be what was asked."""
    wordings, told = draw.pick(known.quizzes)
    return Exchange(draw.pick(BEFORE) + draw.pick(wordings), " ".join(told))


def asked_why(clause: str) -> str:
    """Return the clause as a question with its verb in front; nothing where it isn't plain which word the verb is."""
    words = clause.split(" ")
    for at, word in enumerate(words[:4]):
        if at and word in FRONTED:
            return " ".join(["Why", word, *words[:at], *words[at + 1 :]]) + "?"
    verb = words[1] if len(words) > 1 else ""
    many = words[0] in ("we", "people", "children") or (words[0].endswith("s") and not words[0].endswith("ss"))
    past = verb.endswith("ed") and verb != "need"
    if (many and not past) or (words[2:3] and words[2] in OF_MANY):
        return f"Why do {clause}?"
    if words[0] in ("a", "an", "the") or not verb.endswith("s"):
        return ""
    return " ".join(["Why does", words[0], "have" if verb == "has" else verb[:-1], *words[2:]]) + "?"


def scene(known: Knowledge, draw: TextDraw) -> Exchange:
    """Draw a question from somebody's life, composed by the topic's grammar, and a reply on the same things."""
    return played(known, draw.pick(known.scenes), draw)


# Whether a text, as an answer to a question, takes up what is bound as it should.
Fits = Callable[[str, str, Mapping[str, str]], bool]


def played(known: Knowledge, chosen: Mapping[str, Any], draw: TextDraw, fits: Fits | None = None) -> Exchange:
    """Draw what is bound in this scene, and a question and a reply of it, each part of which fits."""
    bound: dict[str, str] = {}
    for key, rule in chosen.get("bind", {}).items():
        bound[key] = _other(known, rule, bound, draw)
    prompt = known.ask(chosen["ask"], draw, **bound)
    parts = (capital(said(known, part, draw, prompt, bound, fits)) for part in chosen["reply"])
    answer = "\n".join(" ".join(line.split()) for line in " ".join(parts).split("\n"))
    more = {kind: capital(known.say(text, draw, **bound)) for kind, text in chosen.get("more", {}).items()}
    return Exchange(prompt, answer, more)


def said(
    known: Knowledge,
    texts: Sequence[str],
    draw: TextDraw,
    prompt: str,
    bound: Mapping[str, str],
    fits: Fits | None = None,
) -> str:
    """Draw one of the texts and fill its slots, again and again until it fits; nothing if none does."""
    for _ in range(40):
        text = known.say(draw.pick(texts), draw, **bound)
        if fits is None or fits(text, prompt, bound):
            return text
    return ""


def _other(known: Knowledge, rule: str, bound: dict[str, str], draw: TextDraw) -> str:
    """Draw a text of the rule that is not bound yet, if a few tries find one."""
    for _ in range(5):
        text = known.grammar.expand(f"{{{rule}}}", draw, bound)
        if text not in bound.values():
            break
    return text


PAIRED = 0.7  # of comparisons, how many are of things that people mix up
BEFORE = (
    *("",) * 7,
    "I have a question: ",
    "Can you help me? ",
    "Please tell me: ",
    "I was wondering: ",
    "Just asking: ",
)
FRONTED = ("is", "are", "was", "were", "must", "can", "may", "should", "do", "does")
OF_MANY = ("rise", "fall", "exist", "make", "get")  # verbs of a subject of two words, such as "share prices fall"
# From where a definition comes that is certainly not that of a thing of this topic.
FAR = {"legal": "science", "humanities": "science", **dict.fromkeys(("science", "cs", "math", "logic"), "legal")}
Move = Callable[[Knowledge, TextDraw], Exchange]
MOVES: tuple[tuple[Move, int], ...] = (
    (define, 8),
    (compare, 4),
    (name, 2),
    (confirm, 2),
    (survey, 2),
    (steps, 3),
    (why, 4),
    (quiz, 4),
    (scene, 5),
)


def shared(known: Knowledge) -> list[Move]:
    """Return the moves that this topic's facts allow, each as often as it shall come."""
    empty = [(steps, known.steps), (why, known.whys), (scene, known.scenes), (quiz, known.quizzes)]
    missing = {move for move, facts in empty if not facts}
    # Where there are few plain questions, they come less often, lest the same ones come again and again.
    often: dict[Move, int] = {quiz: len(known.quizzes) // 6}
    return [move for move, weight in MOVES if move not in missing for _ in range(min(weight, often.get(move, weight)))]
