"""Requests that find no place in the queue: told so before their bodies are read, which costs them and us the least."""

from typing import Any

import msgspec
from vllm.entrypoints.serve.exception_handling.error_response import create_error_response

from serving.admission import TurnedAway
from serving.paced_engine import PacedEngine

ROUTES = frozenset(
    (
        *("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages"),
        *("/inference/v1/generate", "/invocations"),
    )
)
"""What makes text."""


class QueueGuard:
    """ASGI middleware: answers 429 while all places are taken. Whoever gets past it may still find none."""

    def __init__(self, app: Any, engine: PacedEngine) -> None:
        self._app = app
        self._engine = engine

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in ROUTES:
            try:
                self._engine.check_admission()
            except TurnedAway as refusal:
                await _refuse(refusal, send)
                return
        await self._app(scope, receive, send)


async def _refuse(refusal: TurnedAway, send: Any) -> None:
    body = msgspec.json.encode(create_error_response(refusal).model_dump())
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": int(refusal.http_status), "headers": headers})
    await send({"type": "http.response.body", "body": body})
