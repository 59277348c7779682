"""What a corpus is made of: documents of turns, and the exchanges that dialogues are put together from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")

TOPICS = ("legal", "humanities", "cs", "science", "math", "logic")
OTHER = "other"
HELD_OUT_SHARE = 8  # One in so many pairs of a question's wording and its subject is never asked in training.


@dataclass(frozen=True)
class Turn:
    """One message: `role` is system, user or assistant, or `text` for a plain text."""

    role: str
    content: str


@dataclass(frozen=True)
class Document:
    """A dialogue, or a plain text as its only turn."""

    topic: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Exchange:
    """A question and its answer; `more` has the answers to what could be asked next, by the kind of that question."""

    prompt: str
    answer: str
    more: dict[str, str] = field(default_factory=dict)


class Draw:
    """The chance behind one dialogue; `held_out` decides which wordings it may use."""

    def __init__(self, rng: Random, held_out: bool = False) -> None:
        self.rng = rng
        self.held_out = held_out

    def chance(self, share: float) -> bool:
        """True in this share of all cases."""
        return self.rng.random() < share

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[int(self.rng.random() * len(choices))]

    def some(self, choices: Sequence[T], count: int) -> list[T]:
        """Up to `count` different ones, in any order."""
        return self.rng.sample(choices, min(count, len(choices)))

    def number(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self.rng.random() * (high - low + 1))

    def wording(self, choices: Sequence[str], subject: str) -> str:
        """A wording for a question on this subject, of those that are kept for this split."""
        share = min(HELD_OUT_SHARE, len(choices))
        shift = crc32(subject.encode())
        kept = [text for i, text in enumerate(choices) if ((i + shift) % share == 0) == self.held_out]
        return self.pick(kept or choices)
