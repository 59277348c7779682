"""Little stories: a hero with a wish, what stands in the way, who helps, and how it ends.

A plot in `facts/stories.toml` is a row of beats, each with several wordings. Names, kinds of people and pronouns are
drawn once a story, so that they stay the same from its first sentence to its last.
"""

import re
from typing import Any

from serving.lab.corpus.grammar import Grammar, capital, prose
from serving.lab.corpus.knowledge import load
from serving.lab.corpus.parts import TextDraw

DATA: dict[str, Any] = load("stories")
GRAMMAR = Grammar(DATA["rules"])
PRONOUNS = {"girl": ("she", "her", "her", "herself"), "boy": ("he", "him", "his", "himself")}
PARAGRAPHS = 0.4


def story(draw: TextDraw) -> str:
    """Draw a story of some 80 to 250 words."""
    plot = draw.pick(DATA["plot"])
    home = GRAMMAR.expand("{place}", draw)
    named = re.search(r"\b(town|city|valley|street|village)\b", home)
    bound = {**person(draw, ""), "home": home, "town": f"the {named[1] if named else 'village'}"}
    bound |= person(draw, "f", other_than=bound["name"])
    for key, rule in plot.get("bind", {}).items():
        bound[key] = GRAMMAR.expand(f"{{{rule}}}", draw, bound)
        bound[f"the_{key}"] = re.sub(r"^an? ", "the ", bound[key])
    beats = [draw.pick(DATA["opening"]), *(draw.pick(beat) for beat in plot["beats"]), draw.pick(DATA["ending"])]
    told = [capital(prose(GRAMMAR.expand(beat, draw, bound))) for beat in beats if beat]
    return _joined(told, draw)


def person(draw: TextDraw, prefix: str, other_than: str = "") -> dict[str, str]:
    """Draw a person: name, kind and pronouns, by their names with this prefix."""
    sort = draw.pick(("girl", "boy"))
    name = draw.pick([name for name in DATA["rules"][sort] if name != other_than])
    she, her, hers, herself = PRONOUNS[sort]
    kind = GRAMMAR.expand(f"{{{sort}_kind}}", draw)
    found = {"name": name, "kind": kind, "she": she, "her": her, "hers": hers, "herself": herself}
    return {prefix + key: value for key, value in found.items()}


def _joined(told: list[str], draw: TextDraw) -> str:
    """Return the beats as one paragraph, or as three."""
    if not draw.chance(PARAGRAPHS):
        return " ".join(told)
    first, second = len(told) // 3, 2 * len(told) // 3
    return "\n\n".join(" ".join(part) for part in (told[:first], told[first:second], told[second:]))
