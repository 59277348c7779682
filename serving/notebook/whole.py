"""Whole numbers and names that a notebook gives, numpy's among them; on the command line a parser of options refuses
others."""

from numbers import Integral
from typing import Any

from serving.usage_error import UsageError


def whole(name: str, value: Any) -> int:
    """Return the whole number of at least 1 that was given for `name`. Raise UsageError for anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise UsageError(f"`{name}` is {value!r}: it must be a whole number of at least 1.")
    return int(value)


def whole_or_none(name: str, value: Any) -> int | None:
    """Return the whole number of at least 1 that was given for `name`, if any was. Raise UsageError for anything
    else."""
    return None if value is None else whole(name, value)


def check_names(**given: Any) -> None:
    """Raise UsageError, with its name, for whatever is no text."""
    for name, value in given.items():
        if not isinstance(value, str):
            raise UsageError(f"`{name}` is {value!r}: it must be a name.")
