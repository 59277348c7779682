"""Law: contracts, crimes, courts and what a layman asks about them."""

from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.moves import shared
from serving.lab.corpus.parts import Exchange, TextDraw

KNOWN = knowledge("legal")
MOVES = shared(KNOWN)


def exchange(draw: TextDraw) -> Exchange:
    """One question on law and its answer."""
    return draw.pick(MOVES)(KNOWN, draw)
