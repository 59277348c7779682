"""Names that nobody has, and what no fact tells of a thing, a place or a person.

An answer takes up the words of the question, whatever they are: names are put together by chance, so that it has to be
copied and can't be learnt by heart.
"""

from serving.lab.corpus.grammar import capital, prose
from serving.lab.corpus.knowledge import knowledge, load
from serving.lab.corpus.parts import Exchange, TextDraw

TALK, EVERYDAY = knowledge("other"), knowledge("everyday")
WORLD = load("world")["tables"]
STARTS = [
    "b", "br", "c", "ch", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "kl", "l", "m", "n", "p", "pr", "qu", "r",
    "s", "sh", "st", "t", "tr", "v", "w", "z",
]  # fmt: skip
MIDDLES = ["a", "e", "i", "o", "u", "ai", "ea", "ee", "oo", "ou"]
ENDS = [
    "l", "n", "r", "s", "t", "m", "nd", "rk", "x", "ck", "lin", "ton", "mont", "dale", "berg", "vale", "wick",
    "mar", "ska", "rin", "dor", "ville", "son", "ley",
]  # fmt: skip
FIRST_NAMES: list[str] = [*EVERYDAY.grammar.rules["first_name"], *TALK.grammar.rules["name"]]
THINGS = EVERYDAY.grammar.rules["thing"]
# What is asked of a thing, a place or a person whose answer stands in no table; {x} is what it is asked of.
OF_A_COUNTRY: tuple[str, ...] = (
    "how many people live in {x}", "who is the president of {x}", "how large {x} is", "what a house costs in {x}",
    "who won the last election in {x}", "how the economy of {x} is doing", "what the weather is like in {x}",
    "how people live in {x}", "when {x} was founded", "what the flag of {x} looks like", "who rules {x}",
)  # fmt: skip
OF_A_THING: tuple[str, ...] = (
    "who invented the {x}", "how a {x} is made", "what a {x} costs today", "how many people own a {x}",
    "when the first {x} was built", "how a {x} works inside", "which firm makes the best {x}",
    "how much a {x} weighs", "who sells a cheap {x}",
)  # fmt: skip
OF_A_PERSON: tuple[str, ...] = (
    "who {x} is", "when {x} was born", "where {x} lives", "what {x} does", "how old {x} is", "what {x} has written",
    "why {x} is famous", "whether {x} is still alive", "who the parents of {x} were",
)  # fmt: skip
OF_A_NAME: tuple[str, ...] = (
    "what {x} is", "what {x} means", "how {x} works", "where {x} is", "who made {x}", "what {x} is good for",
    "how {x} came about", "why {x} matters", "when {x} began", "how to use {x}", "how to get to {x}",
)  # fmt: skip
ASKED = (
    "Do you know {q}?", "Can you tell me {q}?", "I would like to know {q}.", "Tell me {q}.", "Please explain {q}.",
    "I wonder {q}.", "Could you tell me {q}?", "My {t} asked me {q}.", "I want to know {q}.", "Find out {q}.",
)  # fmt: skip
# Word order of a question, where it is not the order of the clause.
TURNED = {
    "who {x} is": "Who is {x}?", "when {x} was born": "When was {x} born?", "where {x} lives": "Where does {x} live?",
    "how old {x} is": "How old is {x}?", "what {x} is": "What is {x}?", "what {x} means": "What does {x} mean?",
    "how {x} works": "How does {x} work?", "where {x} is": "Where is {x}?", "who made {x}": "Who made {x}?",
    "how large {x} is": "How large is {x}?", "when {x} was founded": "When was {x} founded?",
    "how a {x} is made": "How is a {x} made?", "what a {x} costs today": "What does a {x} cost today?",
    "how a {x} works inside": "How does a {x} work?", "when {x} began": "When did {x} begin?",
    "why {x} matters": "Why does {x} matter?", "how much a {x} weighs": "How much does a {x} weigh?",
    "why {x} is famous": "Why is {x} famous?", "what {x} does": "What does {x} do?",
    "what the weather is like in {x}": "What is the weather like in {x}?", "how to use {x}": "How do I use {x}?",
    "how to get to {x}": "How do I get to {x}?", "what a house costs in {x}": "What does a house cost in {x}?",
}  # fmt: skip
ADMITTED = (
    "I do not know {q}.", "I am afraid that I do not know {q}.", "I can't tell you {q}.", "Sorry, I do not know {q}.",
    "I never learned {q}.", "I am not sure {q}.",
)  # fmt: skip
THEN = (
    "I am a small model and know only a little.", "A library or a good encyclopedia will help.",
    "Perhaps you can look it up.", "Please ask somebody who knows {x} better.", "I would not want to guess.",
    "If you tell me something about {x}, I can try to help.", "My texts say nothing about {x}.",
)  # fmt: skip


def made_up(draw: TextDraw) -> str:
    """Return a name that nobody has heard, of one or two words."""
    parts = [draw.pick(STARTS) + draw.pick(MIDDLES) for _ in range(draw.number(1, 2))]
    word = capital("".join(parts) + draw.pick(ENDS))
    return word if draw.chance(0.6) else f"{word} {capital(draw.pick(THINGS))}" if draw.chance(0.4) else word.lower()


def named(draw: TextDraw) -> Exchange:
    """Draw a question on a name, a thing or a place that no fact answers."""
    kind = draw.number(0, 3)
    if kind == 0:
        clauses, x = OF_A_COUNTRY, draw.pick(WORLD["countries"])[draw.number(0, 1)]
    elif kind == 1:
        clauses, x = OF_A_THING, draw.pick(THINGS)
    elif kind == 2:
        clauses, x = OF_A_PERSON, f"{draw.pick(FIRST_NAMES)} {made_up(draw).split(' ')[0].capitalize()}"
    else:
        clauses, x = OF_A_NAME, made_up(draw)
    clause = draw.pick(clauses)
    told = clause.replace("{x}", x)
    if clause in TURNED and draw.chance(0.6):
        prompt = TURNED[clause].replace("{x}", x)
    else:
        prompt = draw.pick(ASKED).replace("{q}", told).replace("{t}", draw.pick(TALK.grammar.rules["teacher"]))
    about = f"the {x}" if kind == 1 else x
    rest = " ".join(draw.some(THEN, draw.number(1, 2))).replace("{x}", about)
    answer = f"{draw.pick(ADMITTED).replace('{q}', told)} {rest}"
    return Exchange(prose(prompt), prose(answer), {"why": "Because I am small and have read only a few texts."})


def unknown_in(area: str, draw: TextDraw) -> Exchange:
    """Draw a question on a word that this area doesn't have."""
    x = made_up(draw)
    prompt = draw.pick(
        [
            f"What is {x} in {area}?",
            f"Explain {x} to me. It has to do with {area}.",
            f"In {area}, what does {x} mean?",
            f"My teacher of {area} mentioned {x}. What is it?",
            f"Is {x} important in {area}?",
        ]
    )
    said = draw.pick(
        [
            f"I do not know {x}.",
            f"In {area}, I have never met {x}.",
            f"{x} is not among the words of {area} that I know.",
            f"I can't say what {x} is.",
        ]
    )
    then = draw.pick(
        [
            f"A good book on {area} may tell you.",
            "Perhaps it has another name, too.",
            f"Ask me about something else in {area}.",
            "I would rather not guess.",
        ]
    )
    return Exchange(prompt, capital(f"{said} {then}"), {"why": f"Because I know only a little of {area}."})
