"""Kinds of values that a scenario's keys have, as a file writes them."""

from enum import Enum
from math import inf
from typing import Any

ENDLESS = 10**300


class Kind(Enum):
    """A kind, in words."""

    FLAG = "true or false"
    WHOLE = "a whole number"
    NUMBER = "a number"
    WORD = "a string"
    WORD_OR_WHOLE = "a whole number or a string"
    FILE = "a string, the name of a file"
    WORDS = "a list of strings"

    def value_of(self, value: Any) -> Any:
        """Return a value of a TOML file as a scenario has it; None if it is of another kind."""
        if self is Kind.NUMBER and type(value) is int:
            # Of hundreds of digits it is endless: as much as what has no end it is refused.
            return float(value) if abs(value) < ENDLESS else (inf if value > 0 else -inf)
        if self is Kind.WORD_OR_WHOLE and type(value) is int:
            return str(value)
        if self is Kind.WORDS and isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        return value if type(value) is TYPES.get(self, str) else None

    def words(self, unit: str = "") -> str:
        """Return what a value of the kind is, in words, with its unit if it has one."""
        number, of_word, word = self.value.partition(" or a string")
        return f"{number} of {unit}{of_word}{word}" if unit else self.value


TYPES = {Kind.FLAG: bool, Kind.WHOLE: int, Kind.NUMBER: float, Kind.WORDS: tuple}
"""Those whose values are no text."""


def kind_of(default: Any) -> Kind:
    """Return the kind of a key with such a default, unless it is declared to be another one."""
    return next((kind for kind, type_of in TYPES.items() if type(default) is type_of), Kind.WORD)
