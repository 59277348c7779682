"""What the model can't know, and says so; a package whose door this is.

An answer takes up the words of the question, whatever they are: it has to copy them and can't be learnt by heart.
`names` puts names together by chance, `facts/words.toml` composes clauses of common words, `laws` asks what is legal.
"""

from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.moves import scene
from serving.lab.corpus.parts import Exchange, TextDraw
from serving.lab.corpus.unknown.laws import permitted
from serving.lab.corpus.unknown.names import made_up, named, unknown_in
from serving.topics.names import OTHER

__all__ = ["beyond", "composed", "made_up", "named", "permitted", "unknown", "unknown_in"]

WORDS = knowledge("words")
NAMED = 0.25  # of what nobody can answer, how much asks for a name; the rest is composed of common words
SUBJECTS = {"legal": "law", "humanities": "history", "cs": "computing", "science": "science", "math": "mathematics"}


def unknown(draw: TextDraw) -> Exchange:
    """Draw a question that no fact answers."""
    return named(draw) if draw.chance(NAMED) else composed(draw)


def composed(draw: TextDraw) -> Exchange:
    """Draw a question of common words that no fact answers."""
    return scene(WORDS, draw)


def beyond(topic: str, draw: TextDraw) -> Exchange:
    """Draw a question of this topic that the model can't answer."""
    if topic == "legal" and draw.chance(0.7):
        return permitted(draw)
    return unknown(draw) if topic == OTHER else unknown_in(SUBJECTS.get(topic, topic), draw)
