"""Conversations: many exchanges in one chat, with something told early that is asked for again at the end.

Long ones are what long contexts are learnt from: the answer stands thousands of tokens before its question.
"""

from collections.abc import Callable

from serving.lab.corpus.agents.forms import a_value
from serving.lab.corpus.grammar import prose
from serving.lab.corpus.parts import DialogueTurn, Document, TextDraw

# A kind of value that is told of, the sentence, the reply, what is asked later, and its answer.
TOLD: tuple[tuple[str, ...], ...] = (
    ("name", "My name is {v}.", "Nice to meet you, {v}.", "What is my name?", "Your name is {v}."),
    ("city", "I live in {v}.", "{v} is a beautiful city.", "Where do I live?", "You live in {v}."),
    ("animal", "I have a {v}.", "A {v} is good company.", "Which animal do I have?", "You have a {v}."),
    ("hobby", "My hobby is {v}.", "Many people enjoy {v}.", "What is my hobby?", "Your hobby is {v}."),
    ("name", "My sister is {v}.", "Say hello to {v}.", "What is my sister's name?", "Your sister's name is {v}."),
    ("name", "My best friend is {v}.", "{v} is lucky.", "Who is my best friend?", "Your best friend is {v}."),
    ("job", "I work as a {v}.", "That is useful work.", "What is my job?", "You work as a {v}."),
    ("colour", "My favourite colour is {v}.", "A fine colour.", "What is my favourite colour?", "It is {v}."),
    ("city", "I was born in {v}.", "I have heard of {v}.", "Where was I born?", "You were born in {v}."),
    ("city", "Next year I move to {v}.", "I hope that you like {v}.", "Where do I move to?", "You move to {v}."),
    ("language", "I learn {v}.", "{v} is worth the work.", "Which language do I learn?", "You learn {v}."),
    ("firm", "I work for {v}.", "I hope that {v} pays well.", "Who do I work for?", "You work for {v}."),
    ("day", "My birthday is on {v}.", "I wish you a happy {v}!", "When is my birthday?", "Your birthday is on {v}."),
)  # fmt: skip


def conversation(draw: TextDraw, dialogue: Callable[[int], Document], words: int) -> Document:
    """Draw a conversation of about so many words; `dialogue` gives the parts that it is made of."""
    told = draw.some(TOLD, draw.number(1, 3))
    values = {row: a_value(row[0], draw) for row in told}
    turns = [
        DialogueTurn(role, prose(text.replace("{v}", values[row])))
        for row in told
        for role, text in (("user", row[1]), ("assistant", row[2]))
    ]
    topic = dialogue(draw.number(0, 2**40)).topic
    first = None
    while sum(len(turn.content.split()) for turn in turns) < words:
        part = dialogue(draw.number(0, 2**40))
        first = first or next(turn.content for turn in part.turns if turn.role == "user")
        turns += [turn for turn in part.turns if turn.role != "system"]
        if draw.chance(0.15):
            turns += _recalled(draw, draw.pick(told), values)
    for row in told:
        turns += _recalled(draw, row, values)
    turns.append(DialogueTurn("user", draw.pick(["What did I ask you first?", "What was my first question?"])))
    turns.append(DialogueTurn("assistant", f'You asked: "{first}"'))
    return Document(topic, tuple(turns))


def _recalled(draw: TextDraw, row: tuple[str, ...], values: dict[tuple[str, ...], str]) -> list[DialogueTurn]:
    asked = draw.pick(["", "", "By the way: ", "Do you remember? "]) + row[3]
    return [DialogueTurn("user", asked), DialogueTurn("assistant", prose(row[4].replace("{v}", values[row])))]
