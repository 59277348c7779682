"""Body options: request options in fields of a body that vLLM drops, read by wrapping its serving objects."""

from collections.abc import Awaitable
from typing import Any

from serving.admission.request_options import options_in
from serving.api.tool_choice import choose_tool
from serving.call import current_call
from serving.edge.text_choice import asks_model, prompts_of


class BodyOptions:
    """Wraps a serving object of vLLM's for chat or completions; copies a body's options to the call."""

    def __init__(self, serving: Any, is_bundled: bool, parser: str | None) -> None:
        """`is_bundled`: of the token model. `parser`: the name of vLLM's parser of tool calls, if it has one."""
        self._serving, self._is_bundled, self._parser = serving, is_bundled, parser

    def __getattr__(self, name: str) -> Any:
        return getattr(self._serving, name)

    async def create_chat_completion(self, request: Any, raw_request: Any = None) -> Any:
        """POST /v1/chat/completions"""
        if self._is_bundled:
            choose_tool(request, self._parser)
        return await answer_with_options(request, self._serving.create_chat_completion(request, raw_request))

    async def create_batch_chat_completion(self, request: Any, raw_request: Any = None) -> Any:
        """POST /v1/chat/completions/batch"""
        return await answer_with_options(request, self._serving.create_batch_chat_completion(request, raw_request))

    async def create_completion(self, request: Any, raw_request: Any = None) -> Any:
        """POST /v1/completions"""
        return await answer_with_options(request, self._serving.create_completion(request, raw_request))


async def answer_with_options(request: Any, answer: Awaitable[Any]) -> Any:
    """Return a request's answer once its options are read, and nobody will refuse it any more."""
    read_options(request)
    answered = await answer
    if call := current_call():
        await call.judged()
    return answered


def read_options(request: Any) -> None:
    """Keep what a request of vLLM's says, in extra fields, which it allows, and in `priority`, a field of its own."""
    said = options_in(request.model_extra or {})
    if "priority" in request.model_fields_set:
        said["priority"] = request.priority
    if call := current_call():
        call.body = said or call.body
        call.needs_model, call.prompts = asks_model(request), prompts_of(request)
