"""Tool choice of a bundled token model, which is too small to be trusted with it: told by rule when it calls one.

Left to choose ("auto"), it calls a tool for what a user has said, and answers in text once a tool has told its result:
the turns that an agent's loop has. Arguments are guided by the tools' schemas, as with "required".
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

AUTO, REQUIRED = "auto", "required"


def choose_tool(request: Any) -> None:
    """Have a chat request of vLLM's call a tool, if it may and its last message is the user's."""
    if request.tools and request.tool_choice == AUTO and _is_of_user(request.messages[-1]):
        request.tool_choice = REQUIRED


def choose_tool_of_response(request: Any) -> None:
    """Have a request of vLLM's for a response call a function, if it may and its last item is the user's."""
    said, functions = request.input, [tool for tool in request.tools if tool.type == "function"]
    if functions and request.tool_choice == AUTO and (isinstance(said, str) or (said and _is_of_user(said[-1]))):
        request.tool_choice = REQUIRED


def choose_tools(state: Any) -> None:
    """Have vLLM's objects for Anthropic's messages and for responses, in the `state` of its application, choose as
    those for chat do."""
    messages, responses = state.anthropic_serving_messages, state.openai_serving_responses
    messages.create_chat_completion = _choosing(choose_tool, messages.create_chat_completion)
    responses.create_responses = _choosing(choose_tool_of_response, responses.create_responses)


def _choosing(choose: Callable[[Any], None], create: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @wraps(create)
    async def chosen(request: Any, *rest: Any, **named: Any) -> Any:
        choose(request)
        return await create(request, *rest, **named)

    return chosen


def _is_of_user(message: Any) -> bool:
    """Tell whether a message, or an item of a conversation, is the user's."""
    return (message.get("role") if isinstance(message, dict) else getattr(message, "role", None)) == "user"
