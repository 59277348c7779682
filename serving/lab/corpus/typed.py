"""How a question is typed: mostly as it is, at times polite, careless, mistyped, or in a hurry on a phone."""

import re

from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.parts import TextDraw
from serving.topics.names import OTHER

LOOSE, TYPO, POLITE = 0.1, 0.03, 0.12
ALL_SMALL = 0.3  # of questions on anything, how many have no capitals
HURRIED = 0.5  # of those, how many have no apostrophes; and again, how many lack words that one can do without
PLAIN_WORDS = re.compile(r"[\w ,.?'-]+")  # no code, sums or quotations, in which capitals mean something
STOPS = re.compile(r"[.,?] ")
# How a question in small letters begins, and what is left of that by somebody in a hurry. What it is about then stands
# first, and is the first word of a text, which a tokenizer gives a token of its own.
SHORT_FORMS = tuple(
    (re.compile(rf"^(?:{long})\b ?"), short)
    for long, short in (
        ("(?:can|could|would) you(?: please)?", ""),
        ("(?:i need|i want|i would like|i'd like|i'm looking for|help me find|do you know)(?: to| a| an| some)?", ""),
        ("tell me(?: something interesting)? about", ""),
        ("what(?:'s| is| are)(?: the| a| an| my| some)?", ""),
        ("how (?:do|can|should|could) (?:i|you|we)", "how to "),
        ("where (?:do|can|should|could) (?:i|you|we)", "where to "),
        ("when (?:do|can|should|could) (?:i|you|we)", "when to "),
        ("why (?:is|are|do|does|did)(?: the| a| an| my)?", "why "),
        ("(?:my|the|an|a)", ""),
    )
)
LINKING = re.compile(r" (?:is|are) ")


def typed(prompt: str, draw: TextDraw) -> str:
    """Return the prompt as somebody types it: mostly as it is, at times polite, careless or mistyped."""
    if draw.chance(POLITE):
        return _polite(prompt, draw)
    if draw.chance(LOOSE):
        return _careless(prompt)
    return _mistyped(prompt, draw) if draw.chance(TYPO) else prompt


def typed_on_the_go(prompt: str, draw: TextDraw) -> str:
    """Return the prompt as somebody types it on a phone: often without any capital, and with fewer words."""
    if not PLAIN_WORDS.fullmatch(prompt) or not draw.chance(ALL_SMALL):
        return typed(prompt, draw)
    small = prompt.lower().rstrip(".?")
    if draw.chance(HURRIED):
        small = _shortened(small)
    return small.replace("'", "") if draw.chance(HURRIED) else small


def _shortened(small: str) -> str:
    """Without the words that one can do without, and without stops; as it is if too little would be left."""
    long, short = next(((long, short) for long, short in SHORT_FORMS if long.match(small)), (None, ""))
    if not long:
        return small
    left = STOPS.sub(" ", long.sub(short, small, count=1))
    if not short:
        left = LINKING.sub(" ", left, count=1)
    return left if len(left.split()) > 1 else small


def _careless(prompt: str) -> str:
    """Without its last stop, and without a capital unless the first word is a name or an acronym."""
    first = prompt.split(" ", 1)[0]
    return (prompt[0].lower() + prompt[1:] if first[1:].islower() else prompt).rstrip(".?")


def _polite(prompt: str, draw: TextDraw) -> str:
    known = knowledge(OTHER)
    if draw.chance(0.6):
        return known.say("{hello}", draw) + prompt
    return prompt + known.say("{thanks_in_advance}", draw)


def _mistyped(prompt: str, draw: TextDraw) -> str:
    """Two neighbouring letters of one long word exchanged."""
    words = prompt.split(" ")
    long = [i for i, word in enumerate(words) if len(word) > 5 and word.isalpha()]
    if long:
        at = draw.pick(long)
        cut = draw.number(1, len(words[at]) - 3)
        word = words[at]
        words[at] = word[:cut] + word[cut + 1] + word[cut] + word[cut + 2 :]
    return " ".join(words)
