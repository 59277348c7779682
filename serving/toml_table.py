"""A table of a TOML file, read key by key: what is wrong is told in one sentence with file, line and key."""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from serving.nearest_name import meant, misspelt
from serving.usage_error import UsageError

Keys = tuple[str | int, ...]


class AllowedNumber(NamedTuple):
    """A check of a number, with the words that describe it."""

    words: str
    ok: Callable[[float], bool]


# Of figures that are measured. Beyond these, sums of instants lose the steps between them, and quotients have no end.
SMALLEST, LARGEST = 1e-9, 1e9
POSITIVE = AllowedNumber(
    f"a number above 0, from {SMALLEST:g} to {LARGEST:g}", lambda value: SMALLEST <= value <= LARGEST
)
AT_LEAST_0 = AllowedNumber(f"a number of at least 0, and of at most {LARGEST:g}", lambda value: 0 <= value <= LARGEST)
AT_LEAST_1 = AllowedNumber(f"a number of at least 1, and of at most {LARGEST:g}", lambda value: 1 <= value <= LARGEST)
# How often something comes, per second, and how many times as often.
RATE = AllowedNumber("a number above 0, from 0.000001 to 1000000000", lambda value: 1e-6 <= value <= 1e9)
RATE_OR_0 = AllowedNumber(
    "0, or a number from 0.000001 to 1000000000", lambda value: value == 0 or 1e-6 <= value <= 1e9
)
SPAN_S = RATE  # and for how many seconds it does
FACTOR = AllowedNumber("a number above 0, from 0.000001 to 1000000", lambda value: 1e-6 <= value <= 1e6)
COUNT = AllowedNumber("a whole number of at least 1", lambda value: value >= 1 and value == int(value))
WHOLE = AllowedNumber("a whole number of at least 0", lambda value: value >= 0 and value == int(value))
# Of any number: whole ones beyond fit into no message.
MOST = 2.0**64
_NOTHING = object()


class TomlTable:
    """A table at `keys` of a file. What is asked for is allowed; `end` refuses everything else. A kind of file has a
    class of its own, with its name and the error that is raised for it."""

    what: ClassVar[str] = "file"
    failure: ClassVar[type[UsageError]] = UsageError

    def __init__(self, values: dict[str, Any], path: Path, text: str = "", keys: Keys = ()) -> None:
        self.values, self.path, self.text = values, path, text
        self._keys = keys
        self._known: list[str] = []

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load the whole of a file."""
        try:
            text = path.read_text(encoding="utf-8-sig")
            return cls(tomllib.loads(text), path, text)
        except OSError as error:
            raise cls.failure(f"Cannot read the {cls.what} {path}: {error.strerror}.") from error
        except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, or a number of thousands of digits
            raise cls.failure(f"{path} is not TOML: {error}.") from error

    def __eq__(self, other: object) -> bool:
        """Tell whether another table says the same at the same place, however it is laid out."""
        return isinstance(other, TomlTable) and self._said == other._said

    @property
    def _said(self) -> tuple[dict[str, Any], Path, Keys]:
        return self.values, self.path, self._keys

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def get(self, key: str, default: Any = None) -> Any:
        """Return the key's value, of any kind."""
        self._known.append(key)
        return self.values.get(key, default)

    def number(self, key: str, allowed: AllowedNumber, default: Any = _NOTHING) -> float:
        """Return the number at a key; the default is not checked."""
        value = self.get(key, default)
        if key not in self.values and default is not _NOTHING:
            return default  # type: ignore[no-any-return]
        return self.checked(key, value, allowed)

    def whole(self, key: str, allowed: AllowedNumber = COUNT, default: Any = _NOTHING) -> int:
        """Return the whole number at a key, or the default."""
        value = self.number(key, allowed, default)
        # What is written, as a float has but 53 bits.
        return int(self.values[key]) if key in self.values else value  # type: ignore[return-value]

    def checked(self, key: str, value: Any, allowed: AllowedNumber) -> float:
        """Return a value that stands somewhere under `key`, as a number."""
        if type(value) not in (int, float) or not abs(value) <= MOST or not allowed.ok(value):
            raise self.wrong(key, value, allowed.words)
        return float(value)

    def word(self, key: str, allowed: Collection[str], default: str | None = None) -> str:
        """Return the key's value, one of the `allowed` words."""
        value = self.get(key, _NOTHING if default is None else default)
        if not isinstance(value, str) or value not in allowed:
            raise self.wrong(key, value, f"{' or '.join(allowed)}{meant(value, allowed)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false, as the key says, or the default."""
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, value, "true or false")
        return value

    def file(self, key: str) -> Path:
        """Return the path of a file, named from the folder that this one is in."""
        value = self.get(key, _NOTHING)
        if not isinstance(value, str):
            raise self.wrong(key, value, "the name of a file, as seen from this one")
        path = self.path.parent / value
        try:
            found = path.is_file()
        except (OSError, ValueError) as error:  # too long, or in a folder that is closed to us
            raise self.wrong(key, value, f"a file that can be read ({error})") from error
        if not found:
            raise self.wrong(key, value, f"a file, and there is no {path}")
        return path

    def table(self, key: str) -> Self | None:
        """Return the table at a key, or None."""
        value = self.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(key, value, "a table")
        return None if value is None else self.below(key, value)

    def below(self, key: str, values: dict[str, Any], place: int | None = None) -> Self:
        """Return a table that stands under a key, or in the list there."""
        keys = (*self._keys, key) if place is None else (*self._keys, key, place)
        return type(self)(values, self.path, self.text, keys)

    def with_values(self, values: dict[str, Any]) -> Self:
        """Return the table at the same place with other values."""
        return type(self)(values, self.path, self.text, self._keys)

    def end(self, *also: str, like: Callable[[str], Iterable[str]] = lambda key: ()) -> None:
        """Raise an error for keys that were never asked for. `also` are allowed, too, as whoever asked knows; `like`
        gives more names that a key may be meant to be."""
        for key in self.values:
            if key not in self._known:
                place = f" in `{self._name()}`" if self._keys else ""
                allowed, hint = dict.fromkeys([*self._known, *also]), meant(key, (*self._known, *like(key)))
                sentence = f"there is no key `{key}`{place}{hint}; allowed are {', '.join(allowed)}."
                raise self.failure(f"{self.where(key)}: {sentence}")

    def wrong(self, key: str, value: Any, allowed: str) -> UsageError:
        """Return the error for a value that is not allowed, or not there."""
        if value is _NOTHING or value is None:
            # A key that nobody asked for may be this one, misspelt: `end` is never reached to say so.
            hint = misspelt(key, [each for each in self.values if each not in self._known])
            return self.error(key, f"is missing{hint}: it must be {allowed}.")
        return self.error(key, f"is {value!r}: it must be {allowed}.")

    def error(self, key: str, sentence: str) -> UsageError:
        """Return an error about a key; `sentence` goes on after the key's name."""
        return self.failure(f"{self.where(key)}: `{self._name(key)}` {sentence}")

    def located(self, error: UsageError) -> UsageError:
        """Return an error with the file, and the line of the first key at fault that this table has."""
        there = next((key for key in error.keys if key in self.values), None)
        where = str(self.path) if there is None else self.where(there)
        return self.failure(f"{where}: {error}", *error.keys)

    def _name(self, *key: str) -> str:
        return ".".join(str(part) for part in (*self._keys, *key) if part and isinstance(part, str))

    def where(self, key: str) -> str:
        """Return the file and the line on which a key is set."""
        return f"{self.path}, line {line_of((*self._keys, key), self.text)}"


# Texts and comments.
NOT_VALUE = re.compile(r"\"[^\"]*\"|'[^']*'|#.*")


def line_of(keys: Keys, text: str) -> int:
    """Return the line on which a key is set; else that of the nearest table around it, or the first."""
    words = tuple(key for key in keys if isinstance(key, str))
    place = next((key for key in keys if isinstance(key, int)), 0)
    best, found, seen = 0, 1, -1
    section: tuple[str, ...] = ()
    brackets = 0  # that are open: of a list of several lines, none of which is a key or a section
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        within, value = brackets > 0, NOT_VALUE.sub("", stripped)
        if within or not value.startswith("["):
            brackets += value.count("[") - value.count("]")
        if within:
            continue
        if stripped.startswith("["):
            section = _split(stripped.strip("[] \t").partition("]")[0])
            seen += section == words[: len(section)] and stripped.startswith("[[")
            here = section
        else:
            here = (*section, *_split(stripped.partition("=")[0]))
        # Of a table that is written key by key the first line stands for it.
        here = here[: len(words)]
        in_place = seen == place or not any(isinstance(key, int) for key in keys)
        if len(here) > best and here == words[: len(here)] and in_place:
            best, found = len(here), number
    return found


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split(".") if part.strip())
