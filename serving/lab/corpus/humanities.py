"""The humanities: people, ideas, books and dates."""

from serving.lab.corpus.grammar import capital, prose
from serving.lab.corpus.knowledge import knowledge
from serving.lab.corpus.moves import shared
from serving.lab.corpus.parts import Exchange, TextDraw

KNOWN = knowledge("humanities")
WORKS: list[tuple[str, str, int, str, str]] = [tuple(row) for row in KNOWN.tables["works"]]
EVENTS: list[tuple[str, int, str]] = [tuple(row) for row in KNOWN.tables["events"]]
WHEN = KNOWN.words["when"]
AUTHOR = KNOWN.words["author"]
FIRST = KNOWN.words["first"]


def year(number: int) -> str:
    """Return the year as people write it."""
    return f"{-number} BC" if number < 0 else str(number)


def when(draw: TextDraw) -> Exchange:
    """Draw an exchange on the year of an event."""
    event, at, told = draw.pick(EVENTS)
    said = draw.pick(["{x} was in {y}.", "The year was {y}.", "It was in {y}.", "{x} dates from {y}."])
    first = capital(said.replace("{x}", event).replace("{y}", year(at)))
    return Exchange(KNOWN.ask(WHEN, draw, x=event), f"{first} {told}", {"shorter": f"In {year(at)}."})


def book(draw: TextDraw) -> Exchange:
    """Draw an exchange on what a book is, who wrote it and when."""
    work = draw.pick(WORKS)
    title, author, at, kind, subject = work
    prompt = KNOWN.ask(AUTHOR, draw, x=title)
    first = draw.pick(_of_book(prompt, *work))
    rest = [
        *([f"It tells of {subject}."] if subject not in first else []),
        *([f"It appeared in {at}."] if str(at) not in first else []),
        *([f"It is a {kind}."] if kind not in first else []),
    ]
    told = [first, *rest[: draw.number(0, 2)]]
    more = {
        "shorter": prose(f"{title} is a {kind} by {author}."),
        "more": f"It tells of {subject}. It appeared in {at}.",
    }
    return Exchange(prompt, prose(" ".join(told)), more)


def _of_book(prompt: str, title: str, author: str, at: int, kind: str, subject: str) -> list[str]:
    """Return first sentences that answer this question on a book."""
    whole = [f"{title} is a {kind} by {author} about {subject}.", f"{author} wrote {title}. It tells of {subject}."]
    if "hen" in prompt or "year" in prompt:
        return [f"{author} wrote {title}, which appeared in {at}.", f"{title} by {author} appeared in {at}."]
    if "a novel?" in prompt:
        return [f"{'Yes' if kind == 'novel' else 'No'}, {title} is a {kind} by {author}."]
    if any(word in prompt for word in ("about", "story", "tell of", "happens", "ummarise")):
        return whole
    return [*whole, f"{author} wrote {title}.", f"{title} is by {author}.", f"{title} is a famous {kind} by {author}."]


def earlier(draw: TextDraw) -> Exchange:
    """Which of two events came first."""
    first, second = sorted(draw.some(EVENTS, 2), key=lambda event: event[1])
    asked = [first[0], second[0]] if draw.chance(0.5) else [second[0], first[0]]
    told = [
        f"{capital(first[0])} came first, in {year(first[1])}. {capital(second[0])} followed in {year(second[1])}.",
        f"{capital(first[0])} ({year(first[1])}) was earlier than {second[0]} ({year(second[1])}).",
    ]
    apart = second[1] - first[1] - (1 if first[1] < 0 < second[1] else 0)  # There was no year 0.
    gap = "They were in the same year." if apart == 0 else f"About {apart} year{'s' * (apart > 1)} lie between them."
    more = {"why": f"{first[2]} {second[2]}", "shorter": f"{capital(first[0])}."}
    answer = " ".join([draw.pick(told), gap, *([draw.pick([first[2], second[2]])] if draw.chance(0.5) else [])])
    return Exchange(KNOWN.ask(FIRST, draw, x=asked[0], y=asked[1]), answer, more)


MOVES = [*shared(KNOWN)]
TABLES = (when, book, earlier)


def exchange(draw: TextDraw) -> Exchange:
    """One question on the humanities and its answer."""
    return draw.pick(TABLES)(draw) if draw.chance(0.25) else draw.pick(MOVES)(KNOWN, draw)
