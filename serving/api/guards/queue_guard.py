"""Requests that find no place in the queue are told so before their bodies are read, which costs them and us the least;
those that find one are taken in a few at a time."""

from typing import Any

from vllm.entrypoints.serve.exception_handling.error_response import create_error_response

from serving.api.http_errors import send_error
from serving.call import TEXT_ROUTES, current_call
from serving.edge.async_llm import EmulatedLLM
from serving.edge.refusals import Overflow


class QueueGuard:
    """ASGI middleware: answers 429 while all places are taken. Whoever gets past it may still find none."""

    def __init__(self, app: Any, engine: EmulatedLLM) -> None:
        self._app = app
        self._engine = engine

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in TEXT_ROUTES:
            try:
                self._engine.check_admission()
            except Overflow as refusal:
                await send_error(send, int(refusal.http_status), create_error_response(refusal).model_dump()["error"])
                return
        await self._app(scope, receive, send)


class IntakeGuard:
    """ASGI middleware: takes requests that make text in a few at a time, once their bodies are here."""

    def __init__(self, app: Any, engine: EmulatedLLM) -> None:
        self._app = app
        self._engine = engine

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] in TEXT_ROUTES and (call := current_call()):
            await self._engine.intake.enter(call)
        await self._app(scope, receive, send)
