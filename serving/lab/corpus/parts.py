"""What a corpus is made of: documents of turns, and the exchanges that dialogues are put together from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class DialogueTurn:
    """One message: `role` is system, user or assistant, or `text` for a plain text."""

    role: str
    content: str


@dataclass(frozen=True)
class Document:
    """A dialogue, or a plain text as its only turn."""

    topic: str
    turns: tuple[DialogueTurn, ...]


@dataclass(frozen=True)
class Exchange:
    """A question and its answer; `more` has the answers to what could be asked next, by the kind of that question."""

    prompt: str
    answer: str
    more: dict[str, str] = field(default_factory=dict)


class TextDraw:
    """The chance behind one dialogue."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def chance(self, share: float) -> bool:
        """Return True in this share of all cases."""
        return self.rng.random() < share

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[int(self.rng.random() * len(choices))]

    def some(self, choices: Sequence[T], count: int) -> list[T]:
        """Up to `count` different ones, in any order."""
        return self.rng.sample(choices, min(count, len(choices)))

    def number(self, low: int, high: int) -> int:
        """Draw a whole number from low to high, both included."""
        return low + int(self.rng.random() * (high - low + 1))
