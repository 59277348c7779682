"""Parses strings of the form `name: key=value, key=value`, such as a scenario's SLO classes."""

from collections.abc import Mapping
from math import isfinite

from serving.nearest_name import meant
from serving.usage_error import UsageError

Value = str | int | float
KINDS = {str: "a word", int: "a whole number", float: "a number"}


class TermError(UsageError):
    """A string that says something else; the message is a sentence that begins with `what` it was to say."""


def split_name(text: str, what: str) -> tuple[str, str]:
    """Return the name before the colon, and the terms after it; a name alone has none. Raise `TermError`."""
    name, _, terms = (part.strip() for part in text.partition(":"))
    if not name or "=" in name:
        raise TermError(
            f"{what} has {text!r}: allowed is a name, a colon, and terms, as in `name: key=value, key=value`."
        )
    return name, terms


def parse_terms(text: str, allowed: Mapping[str, type[str] | type[int] | type[float]], what: str) -> dict[str, Value]:
    """Return the values of `key=value, key=value`, each of the type that `allowed` has for its key; numbers are finite.

    Keys may be left out. `what` begins the message of the `TermError` that anything else raises.
    """
    values: dict[str, Value] = {}
    for term in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (part.strip() for part in term.partition("="))
        if not equals or key not in allowed:
            names = ", ".join(f"{name}=..." for name in allowed)
            raise TermError(f"{what} has {term!r}: allowed is {names}{meant(key, allowed) if equals else ''}.")
        if key in values:
            raise TermError(f"{what} has `{key}` twice in {text!r}: once is enough.")
        values[key] = _value(value, allowed[key], f"{what} has {term!r}: `{key}`")
    return values


def _value(text: str, kind: type[str] | type[int] | type[float], what: str) -> Value:
    try:
        # Python's own also take other scripts' digits, and underscores.
        value = kind(text if kind is str or (text.isascii() and "_" not in text) else "")
    except ValueError:
        value = ""
    if value == "" or (isinstance(value, float) and not isfinite(value)):
        raise TermError(f"{what} must be {KINDS[kind]}.")
    return value
