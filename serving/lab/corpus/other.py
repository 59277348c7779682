"""What is not in any of the topics: small talk, the house, travel, the world, and what nobody can answer."""

from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.moves import compare, confirm, define, name, scene, steps, why
from serving.lab.corpus.parts import Exchange, TextDraw
from serving.lab.corpus.unknown import unknown
from serving.lab.corpus.world import world

TALK, HOME, EVERYDAY = knowledge("other"), knowledge("home"), knowledge("everyday")
OF_HOME = (define, define, define, steps, steps, steps, why, why, compare, name, confirm)


def exchange(draw: TextDraw) -> Exchange:
    """One turn of daily life and its answer."""
    kind = draw.pick("ttthhhheeeewwwu")
    if kind == "t":
        return draw.pick((*(scene,) * 12, steps, steps, define))(TALK, draw)
    if kind == "h":
        return draw.pick(OF_HOME)(HOME, draw)
    if kind == "e":
        return scene(EVERYDAY, draw)
    return world(draw) if kind == "w" else unknown(draw)
