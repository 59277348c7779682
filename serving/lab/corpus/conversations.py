"""Long conversations: many exchanges in one chat, with something told early that is asked for again at the end.

They are what long contexts are learnt from: the answer stands thousands of tokens before its question.
"""

from collections.abc import Callable

from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.parts import DialogueTurn, Document, TextDraw

TALK, EVERYDAY = knowledge("other").grammar.rules, knowledge("everyday").grammar.rules
# What is told, the reply, what is asked later, and its answer; {v} is a text of the rule.
TOLD = (
    ("name", "My name is {v}.", "Nice to meet you, {v}.", "What is my name?", "Your name is {v}."),
    ("city", "I live in {v}.", "{v} is a beautiful city.", "Where do I live?", "You live in {v}."),
    ("animal", "I have a {v}.", "A {v} is good company.", "Which animal do I have?", "You have a {v}."),
    ("hobby", "My hobby is {v}.", "Many people enjoy {v}.", "What is my hobby?", "Your hobby is {v}."),
    ("day", "My birthday is on {v}.", "I wish you a happy {v}!", "When is my birthday?", "Your birthday is on {v}."),
)  # fmt: skip


def conversation(draw: TextDraw, dialogue: Callable[[int], Document], words: int) -> Document:
    """Draw a conversation of about so many words; `dialogue` gives the parts that it is made of."""
    told = draw.some(TOLD, draw.number(1, 3))
    values = {row[0]: draw.pick(TALK[row[0]]) for row in told}
    turns = [
        DialogueTurn(role, text.replace("{v}", values[row[0]]))
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


def _recalled(draw: TextDraw, row: tuple[str, ...], values: dict[str, str]) -> list[DialogueTurn]:
    asked = draw.pick(["", "", "By the way: ", "Do you remember? "]) + row[3]
    return [DialogueTurn("user", asked), DialogueTurn("assistant", row[4].replace("{v}", values[row[0]]))]
