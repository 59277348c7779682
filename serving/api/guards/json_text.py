"""JSON from clients: parsed once, within bounds, before vLLM's server parses it at leisure."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from serving.edge.request_bounds import NO_CHARACTER, unencodable

MOST_DEPTH = 100
# Values of a request, where the context asks for no more: they cost vLLM's server up to a microsecond each.
LEAST_VALUES = 1 << 16
# Of a message vLLM's server tries all kinds that there are: a thousand objects may take it 25 ms.
MOST_OBJECTS = 2048
# Half of a character of UTF-16, as an escape: Python's parser takes it without its other half, and no encoding does.
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
SEPARATORS = (b",", b":", b"[", b"{")

_decode = msgspec.json.Decoder().decode


class BadJson(ValueError):
    """A text that is refused as it is, with the field, if there is one to name."""

    def __init__(self, sentence: str, field: str | None = None) -> None:
        super().__init__(sentence)
        self.field = field


def most_values(context: int) -> int:
    """Return the number of values that a request may have, of which prompts have up to `context` tokens."""
    return max(LEAST_VALUES, 2 * context)


def parse(body: bytes, most_values: int) -> Any:
    """Return the value that a body says, of at most so many values; raise `BadJson`."""
    # Counted before anything is made of them; those in strings as well, which are not worth the search.
    separators = sum(map(body.count, SEPARATORS))
    if separators > most_values:
        raise BadJson(f"The body has {separators} commas, colons and opening brackets, and may have {most_values}.")
    if SURROGATE.search(body):
        _check_text(body)
    try:
        value = _decode(body)
    except RecursionError:
        raise BadJson(_TOO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadJson(f"The body is not JSON in UTF-8: {error}.") from None
    if body.count(b"[") + body.count(b"{") > MOST_DEPTH and depth(value) > MOST_DEPTH:
        raise BadJson(_TOO_DEEP)
    if body.count(b"{") > MOST_OBJECTS and (objects := count_objects(value)) > MOST_OBJECTS:
        raise BadJson(f"The body has {objects} objects, and may have {MOST_OBJECTS}.")
    return value


def count_objects(value: Any) -> int:
    """Return the number of objects in a JSON value, itself included."""
    count, level = 0, [value]
    while level := [each for each in level if isinstance(each, dict | list)]:
        count += sum(isinstance(each, dict) for each in level)
        level = [item for each in level for item in _items(each)]
    return count


def depth(value: Any) -> int:
    """Levels of arrays and objects."""
    level, levels = [value], 0
    while level := [each for each in level if isinstance(each, dict | list)]:
        levels += 1
        level = [item for each in level for item in _items(each)]
    return levels


_TOO_DEEP = f"The body nests arrays and objects more than {MOST_DEPTH} levels deep."


def _items(value: dict[str, Any] | list[Any]) -> Iterator[Any]:
    return iter(value.values() if isinstance(value, dict) else value)


def _check_text(body: bytes) -> None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return
    if (path := unencodable(value)) is not None:
        field = ".".join(path)
        raise BadJson(f"`{field}` {NO_CHARACTER}", field)
