"""Values in a JSON value, whatever is in it, without recursion: what is deep costs no more than what is not."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def items_of(value: Any) -> Iterator[tuple[str | int, Any]]:
    """Yield the items of an object or a list, by name or place; nothing for what is neither."""
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield from enumerate(value)


def values_in(said: Any) -> Iterator[Any]:
    """Yield a value, and all that is in it."""
    pending = [said]
    while pending:
        value = pending.pop()
        yield value
        pending += (item for _, item in items_of(value))
