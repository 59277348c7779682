"""Checks the input of /v1/responses item by item: each wrong one costs vLLM milliseconds, and it looks at all."""

from typing import Any

from openai.types.responses import ResponseOutputMessage
from pydantic import TypeAdapter, ValidationError
from vllm.entrypoints.openai.responses.protocol import ResponseInputOutputItem

from serving.api.guards.json_text import count_objects
from serving.edge.request_bounds import OutOfBounds

PATH = "/v1/responses"
MOST_IN_INPUT, MOST_IN_ITEM = 1024, 64

_item: TypeAdapter[Any] = TypeAdapter(ResponseInputOutputItem)


def check_input(items: Any) -> None:
    """Raise `OutOfBounds` for the first wrong item of a list."""
    if not isinstance(items, list):
        return
    _check_count("input", items, MOST_IN_INPUT)
    for index, item in enumerate(items):
        _check_count(f"input.{index}", item, MOST_IN_ITEM)
        try:
            read = _item.validate_python(item)
        except ValidationError:
            raise OutOfBounds(f"input.{index}", "is none of the items that OpenAI's Responses API has.") from None
        # vLLM takes the first part, and fails if there is none, or if it is no text.
        empty = isinstance(item, dict) and item.get("role") == "assistant" and item.get("content") == []
        refusal = isinstance(read, ResponseOutputMessage) and not hasattr(next(iter(read.content), None), "text")
        if empty or refusal:
            raise OutOfBounds(f"input.{index}", "is a message of the assistant whose `content` begins with no text.")


def _check_count(field: str, value: Any, most: int) -> None:
    if (objects := count_objects(value)) > most:
        raise OutOfBounds(field, f"has {objects} objects, and may have {most}.")
