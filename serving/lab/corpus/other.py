"""What is not in any of the topics: small talk, the house, travel, the world, and what nobody can answer."""

from serving.lab.corpus.grammar import capital, prose, yours
from serving.lab.corpus.knowledge import PHRASING, knowledge
from serving.lab.corpus.moves import compare, confirm, define, name, scene, steps, why
from serving.lab.corpus.parts import Exchange, TextDraw
from serving.lab.corpus.unknown import unknown
from serving.lab.corpus.world import world

TALK, HOME, EVERYDAY = knowledge("other"), knowledge("home"), knowledge("everyday")
LIFE, DAYS, PEOPLE = knowledge("life"), knowledge("days"), knowledge("people")
OF_HOME = (define, define, define, steps, steps, steps, why, why, compare, name, confirm)
OF_LIFE = (define, define, define, compare, name, confirm)
DURATIONS: list[list[str]] = LIFE.tables["durations"]
DIFFERENCES: list[list[str]] = LIFE.tables["differences"]
# How often each kind comes: small talk, home, days and life, scenes of everyday life and with people, the world, and
# (a fifth) what nobody can answer. With less of that, a question outside the facts gets some other question's answer.
KINDS = "ttthhdddeeepppwwwuuuu"


def exchange(draw: TextDraw) -> Exchange:
    """One turn of daily life and its answer."""
    kind = draw.pick(KINDS)
    if kind == "t":
        return draw.pick((*(scene,) * 12, steps, steps, define))(TALK, draw)
    if kind == "h":
        return draw.pick(OF_HOME)(HOME, draw)
    if kind == "d":
        return _day(draw)
    if kind in "ep":
        return scene(EVERYDAY if kind == "e" else PEOPLE, draw)
    return world(draw) if kind == "w" else unknown(draw)


def _day(draw: TextDraw) -> Exchange:
    kind = draw.pick("ssswwwlllda")
    if kind in "da":
        return lasting(draw) if kind == "d" else apart(draw)
    return draw.pick(OF_LIFE)(LIFE, draw) if kind == "l" else (steps if kind == "s" else why)(DAYS, draw)


def lasting(draw: TextDraw) -> Exchange:
    """Draw an exchange on how long something takes, or how long food can be kept."""
    task, time, told = draw.pick(DURATIONS)
    kept = task.startswith("keep")
    ask = KEPT if kept else TAKES
    answer = f"You can {task} for {time}." if kept else f"It takes {time} to {yours(task)}."
    prompt = draw.pick(ask).replace("{t}", task)
    return Exchange(prompt, prose(f"{answer} {told}"), {"shorter": capital(f"{time}."), "more": told})


def apart(draw: TextDraw) -> Exchange:
    """Draw an exchange on two things that are easily mixed up: what is said of each is said of the right one."""
    one, two, told = draw.pick(DIFFERENCES)
    x, y = draw.some([one, two], 2)
    prompt = LIFE.ask(PHRASING["other_questions"]["compare"], draw, **{"x": x, "y": y, "is": "is"})
    start = draw.pick(["", "", f"{capital(one)} and {two} are easily mixed up. ", "They are not the same. "])
    return Exchange(prompt, start + told, {"shorter": told})


TAKES = (
    "How long does it take to {t}?", "How long do I have to wait if I {t}?", "For how long should I {t}?",
    "How long should you {t}?", "How much time does it take to {t}?", "I want to {t}. How long does it take?",
    "How long do I need to {t}?", "Tell me how long it takes to {t}.",
)  # fmt: skip
KEPT = ("How long can I {t}?", "For how long may I {t}?", "Is it safe to {t} for long?", "How long is it fine to {t}?")
