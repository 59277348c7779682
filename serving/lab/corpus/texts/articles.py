"""Short articles on what is known in a topic: a concept and its neighbour, a reason, or the steps of a task."""

from serving.lab.corpus.grammar import capital
from serving.lab.corpus.knowledge import Concept, Knowledge, knowledge
from serving.lab.corpus.parts import TextDraw
from serving.topics.names import OTHER, TOPICS

FILES = {**{topic: topic for topic in TOPICS}, OTHER: "home"}
TITLED = 0.3


def article(draw: TextDraw) -> tuple[str, str]:
    """Draw a topic and an article on a concept of it, perhaps with a paragraph on a related one."""
    topic, known = _known(draw)
    concept = draw.pick(known.concepts)
    text = _paragraph(concept, draw, 6)
    if draw.chance(0.5):
        link = draw.pick(["Something else belongs here. ", "Close to this stands another idea. ", "", ""])
        text += f"\n\n{link}{_paragraph(_related(known, concept, draw), draw, 3)}"
    return topic, _titled(concept.name, text, draw)


def _paragraph(concept: Concept, draw: TextDraw, most: int) -> str:
    """Return the definition and some facts, in the order in which they are known."""
    kept = set(draw.some(range(len(concept.facts)), draw.number(2, most)))
    return " ".join([concept.sentence, *(fact for at, fact in enumerate(concept.facts) if at in kept)])


def _related(known: Knowledge, concept: Concept, draw: TextDraw) -> Concept:
    """Return what people compare it with, or else another concept of its area, or any other where there is none."""
    paired = [other for pair in known.pairs if concept in pair for other in pair if other is not concept]
    beside = [other for other in known.areas[concept.area] if other is not concept]
    return draw.pick(paired or beside or [other for other in known.concepts if other is not concept])


def reason(draw: TextDraw) -> tuple[str, str]:
    """Draw a topic and a few lines on why something is so."""
    topic, known = _known(draw)
    clause, reasons = draw.pick(known.whys)
    told = " ".join(reasons)
    if draw.chance(0.5):
        return topic, f"Why {clause}\n\n{told}"
    begun = draw.pick(["Many people ask why {x}.", "Have you ever wondered why {x}?", "It is easy to say why {x}."])
    return topic, f"{begun.replace('{x}', clause)} {told}"


def instructions(draw: TextDraw) -> tuple[str, str]:
    """Draw a topic and the steps of a task, as a list."""
    topic, known = _known(draw)
    task, parts = draw.pick(known.steps)
    lines = [f"{i}. {capital(part)}." for i, part in enumerate(parts, 1)]
    return topic, "\n".join([f"How to {task}", "", *lines])


def _known(draw: TextDraw) -> tuple[str, Knowledge]:
    topic, name = draw.pick(list(FILES.items()))
    return topic, knowledge(name)


def _titled(title: str, text: str, draw: TextDraw) -> str:
    return f"{capital(title)}\n\n{text}" if draw.chance(TITLED) else text
