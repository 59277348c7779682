"""Between protobuf and OpenAI's JSON, which is what vLLM's server takes and gives."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, TypeVar

import msgspec
from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value

M = TypeVar("M", bound=Message)

DONE = "data: [DONE]"
Budget = Iterator[int]
"""What is left of the values that a message may have: the next is asked for with each."""
_decode = msgspec.json.Decoder().decode


class NotFinite(ValueError):
    """A number that JSON cannot carry, in `field`."""

    def __init__(self, field: str) -> None:
        super().__init__(f"`{field}` must be a finite number.")
        self.field = field


class TooMany(ValueError):
    """More values than the `most` that a message may have, the last of them in `field`."""

    def __init__(self, field: str, most: int) -> None:
        super().__init__(f"A message may have {most} values.")
        self.field = field


def request_json(request: Message, most: int) -> dict[str, Any]:
    """Return a request, of at most so many values, in OpenAI's JSON; absent fields stay absent.

    Protobuf's own mapping, but whole numbers are ints: `Value` knows only doubles, and token ids and JSON schemas need
    ints. Raise `NotFinite` or `TooMany`.
    """
    fields, budget = {}, iter(range(most))
    for field, value in request.ListFields():
        try:
            fields[field.name] = _plain(value, budget)
        except OverflowError as error:
            raise NotFinite(field.name) from error
        except StopIteration:
            raise TooMany(field.name, most) from None
    return fields


def reply(kind: type[M], fields: dict[str, Any]) -> M:
    """vLLM's answer, or a chunk of it, as a message; the hot path."""
    try:
        return kind(**fields)
    except (TypeError, ValueError):
        # The constructor is ten times faster, but knows neither `Value` (a stop reason) nor fields that we lack.
        return json_format.ParseDict(fields, kind(), ignore_unknown_fields=True)


def event_json(event: str) -> dict[str, Any] | None:
    """Parse one of vLLM's server-sent events; None for the one that ends the stream."""
    if event.startswith(DONE):
        return None
    fields: dict[str, Any] = _decode(event[len("data: ") :])
    return fields


def _plain(value: Any, budget: Budget) -> Any:
    next(budget)
    if isinstance(value, Message):
        return _message(value, budget)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(item, budget) for key, item in value.items()}
    return [_plain(item, budget) for item in value]


def _message(message: Message, budget: Budget) -> Any:
    if isinstance(message, Struct):
        return {key: _value(item, budget) for key, item in message.fields.items()}
    if isinstance(message, Value):
        return _value(message, budget)
    return {field.name: _plain(item, budget) for field, item in message.ListFields()}


def _value(value: Value, budget: Budget) -> Any:
    next(budget)
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        return _number(value.number_value)
    if kind == "list_value":
        return [_value(item, budget) for item in value.list_value.values]
    if kind == "struct_value":
        return _message(value.struct_value, budget)
    return None if kind is None or kind == "null_value" else getattr(value, kind)


def _number(number: float) -> float | int:
    if not isfinite(number):
        raise OverflowError
    return int(number) if number.is_integer() else number
