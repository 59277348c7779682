"""What is not in any of the topics: greetings, small talk, the kitchen, travel, stories and little letters."""

from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.moves import define, scene, steps
from serving.lab.corpus.parts import Exchange, TextDraw

KNOWN = knowledge("other")
MOVES = (*(scene,) * 12, steps, steps, define)


def exchange(draw: TextDraw) -> Exchange:
    """One turn of daily life and its answer."""
    return draw.pick(MOVES)(KNOWN, draw)
