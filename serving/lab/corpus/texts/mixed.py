"""The door: one plain text of any kind."""

from collections.abc import Callable

from serving.lab.corpus.parts import DialogueTurn, Document, TextDraw
from serving.lab.corpus.texts.articles import article, instructions, reason
from serving.lab.corpus.texts.notes import note, recipe
from serving.lab.corpus.texts.stories import story
from serving.topics.names import OTHER

KINDS: tuple[Callable[[TextDraw], tuple[str, str]], ...] = (
    *(lambda draw: (OTHER, story(draw)),) * 9,
    *(article,) * 5,
    reason,
    instructions,
    *(lambda draw: (OTHER, note(draw)),) * 3,
    lambda draw: (OTHER, recipe(draw)),
)


def plain_text(draw: TextDraw) -> Document:
    """Draw a text, as the only turn of its document."""
    topic, text = draw.pick(KINDS)(draw)
    return Document(topic, (DialogueTurn("text", text),))
