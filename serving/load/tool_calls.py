"""Calls of tools that a server's model makes for the agents of a workload: read from streams, and said again."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from serving.workload.tools import TOOLS

LEAST_ROOM = 128
"""Tokens that a call may have at least: one that is cut off is none."""
NO_TOOL_PART: dict[str, Any] = {}


class ToolCall(NamedTuple):
    """A call: its id, the function's name, and its arguments as JSON."""

    id: str
    name: str
    arguments: str

    @property
    def message(self) -> dict[str, Any]:
        """Return what the assistant has said by it."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"role": "assistant", "tool_calls": [{"id": self.id, "type": "function", "function": function}]}

    def result(self, text: str) -> dict[str, Any]:
        """Return what the tool tells."""
        return {"role": "tool", "tool_call_id": self.id, "content": text}


def offered(tools: int) -> list[dict[str, Any]]:
    """Return the first so many tools, as a request offers them."""
    return [{"type": "function", "function": tool.function} for tool in TOOLS[:tools]]


def call_of(parts: Sequence[Any]) -> ToolCall | None:
    """Return the first call of those whose parts came in a stream; None if there is none that is whole."""
    try:
        return _call_of(parts)
    except (ValueError, TypeError, AttributeError, RecursionError):  # a server may send anything
        return None


def _call_of(parts: Sequence[Any]) -> ToolCall | None:
    indices = [part.get("index") or 0 for part in parts]
    first = [part for index, part in zip(indices, parts, strict=True) if index == min(indices)]
    functions = [part.get("function") or NO_TOOL_PART for part in first]
    id = next((part["id"] for part in first if part.get("id")), "")
    name = _joined(function.get("name") for function in functions)
    arguments = _joined(function.get("arguments") for function in functions)
    whole = isinstance(id, str) and isinstance(json.loads(arguments), dict)
    return ToolCall(id, name, arguments) if id and name and whole else None


def stand_in(number: int) -> ToolCall:
    """Return the call that stands for one that a server didn't make, so that the agent's load stays what it was."""
    return ToolCall(f"call-{number}", TOOLS[0].name, "{}")


def _joined(texts: Iterable[str | None]) -> str:
    return "".join(text for text in texts if text)
