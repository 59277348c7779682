"""What a user writes as `name: key=value, key=value`."""

from collections.abc import Mapping
from typing import Any


class TermsError(ValueError):
    """Terms that cannot be read; the message is a sentence."""


def parse_terms(text: str, allowed: Mapping[str, type], what: str) -> dict[str, Any]:
    """The values in `key=value, key=value`, each of the type that `allowed` gives its key.

    Raises `TermsError`, naming `what`, for a key that is unknown or comes twice, and for a value of another type.
    """
    terms: dict[str, Any] = {}
    for term in (part.strip() for part in text.split(",") if part.strip()):
        key, _, value = (part.strip() for part in term.partition("="))
        if key not in allowed or key in terms:
            can = ", ".join(f"{name}=..." for name in allowed) or "none"
            raise TermsError(f"{what} has the term {term!r}: it takes, once each, {can}.")
        try:
            terms[key] = allowed[key](value)
        except ValueError as error:
            kind = {int: "a whole number", float: "a number"}.get(allowed[key], f"a {allowed[key].__name__}")
            raise TermsError(f"{what} has {key}={value}: it must be {kind}.") from error
    return terms
