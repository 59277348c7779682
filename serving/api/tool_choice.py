"""Tool choice of a bundled token model, which is too small to be trusted with it: told by rule when it calls one.

Left to choose ("auto"), it calls a tool for what a user has said, and answers in text once a tool has told its result:
the turns that an agent's loop has. A grammar guides the call: one, as the model has learnt to write it, with the
arguments that a tool's schema asks for. vLLM's own for "required" is a list that it never saw.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial, wraps
from typing import Any

from vllm.sampling_params import StructuredOutputsParams

from serving.edge.request_bounds import MOST_GRAMMAR_CHARS, OutOfBounds

NONE, AUTO, REQUIRED = "none", "auto", "required"
PARSER = "hermes"
"""vLLM's parser of calls that are written as in the bundled chat template."""
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


def choose_tool(request: Any, parser: str | None) -> None:
    """Have a chat request of vLLM's call a tool, if it must, or if it may and its last message is the user's. `parser`
    is the name of vLLM's parser of calls, if it has one. Raise OutOfBounds for a tool that it has not."""
    choice = request.tool_choice
    is_asked = bool(request.messages) and _is_of_user(request.messages[-1])
    if not request.tools or choice in (None, NONE) or (choice == AUTO and not is_asked):
        return
    named = None if choice in (AUTO, REQUIRED) else choice.function.name
    functions = [tool.function for tool in request.tools if named in (None, tool.function.name)]
    if not functions:
        there = ", ".join(tool.function.name for tool in request.tools)
        raise OutOfBounds("tool_choice", f"names {named!r}, and `tools` has none of that name: it has {there}.")
    _call(request, functions, parser if _is_text(request.response_format) else None)


def choose_tool_of_response(request: Any, parser: str | None) -> None:
    """Have a request of vLLM's for a response call a function, if it must, or if it may and its last item is the
    user's."""
    said, functions = request.input, [tool for tool in request.tools if tool.type == "function"]
    is_asked = isinstance(said, str) or (said and _is_of_user(said[-1]))
    if functions and (request.tool_choice == REQUIRED or (request.tool_choice == AUTO and is_asked)):
        if request.text is not None and _is_text(request.text.format):
            request.text.format = None  # Beside a grammar vLLM refuses any.
        _call(request, functions, parser if request.text is None or request.text.format is None else None)


def _call(request: Any, functions: Sequence[Any], parser: str | None) -> None:
    """Have a request call one of the functions, by the grammar of what `parser` reads, or else by vLLM's own. Left to
    choose among more than a grammar can tell of, the model goes by itself; raise OutOfBounds where it must call one."""
    if parser == PARSER and request.structured_outputs is None:
        tag = json.dumps(call_tag((function.name, function.parameters) for function in functions))
        if len(tag) > MOST_GRAMMAR_CHARS:
            if request.tool_choice == AUTO:
                return
            told = f"of which one must be called make a grammar of {len(tag)} characters, which may have"
            raise OutOfBounds("tools", f"{told} {MOST_GRAMMAR_CHARS}: name one in `tool_choice`, or send fewer.")
        request.tool_choice, request.structured_outputs = AUTO, StructuredOutputsParams(structural_tag=tag)
    elif request.tool_choice == AUTO:
        request.tool_choice = REQUIRED


def call_tag(functions: Iterable[tuple[str, dict[str, Any] | None]]) -> dict[str, Any]:
    """Return the structural tag, as xgrammar has them, of one call of any of the functions: names, and the schemas of
    their arguments."""
    tags = [
        {
            "begin": f'<tool_call>{{"name": {json.dumps(name)}, "arguments": ',
            "content": {"type": "json_schema", "json_schema": parameters or NO_ARGUMENTS},
            "end": "}</tool_call>",
        }
        for name, parameters in functions
    ]
    one = {"type": "tags_with_separator", "tags": tags, "separator": "", "at_least_one": True, "stop_after_first": True}
    return {"type": "structural_tag", "format": one}


def choose_tools(state: Any, parser: str | None) -> None:
    """Have vLLM's objects for Anthropic's messages and for responses, in the `state` of its application, choose as
    those for chat do."""
    messages, responses = state.anthropic_serving_messages, state.openai_serving_responses
    messages.create_chat_completion = _choosing(partial(choose_tool, parser=parser), messages.create_chat_completion)
    choose = partial(choose_tool_of_response, parser=parser)
    responses.create_responses = _choosing(choose, responses.create_responses)


def _choosing(choose: Callable[[Any], None], create: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @wraps(create)
    async def chosen(request: Any, *rest: Any, **named: Any) -> Any:
        choose(request)
        return await create(request, *rest, **named)

    return chosen


def _is_text(asked: Any) -> bool:
    """Tell whether a format of the answer says nothing of it: `text` is what a request without one gets."""
    return asked is None or asked.type == "text"


def _is_of_user(message: Any) -> bool:
    """Tell whether a message, or an item of a conversation, is the user's."""
    return (message.get("role") if isinstance(message, dict) else getattr(message, "role", None)) == "user"
