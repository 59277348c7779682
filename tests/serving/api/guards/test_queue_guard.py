"""Is whoever finds no place told so before a body is read, on each route of chat and completions?"""

import asyncio
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
from vllm.entrypoints.openai.chat_completion.api_router import router as chat
from vllm.entrypoints.openai.completion.api_router import router as completion

from serving.api.guards.queue_guard import QueueGuard
from serving.edge.refusals import Overflow
from serving.refusals import Reason, Refusal

FULL = Refusal(Reason.QUEUE, "All 2 places of the queue are taken.", wait_s=1.0)
PATHS = sorted({route.path for router in (chat, completion) for route in router.routes})


def refuse() -> None:
    raise Overflow(FULL, 1.0)


async def body() -> Any:
    raise AssertionError("The body was read.")


@pytest.mark.parametrize("path", PATHS)
def test_a_full_queue_is_told_before_the_body_is_read(path: str) -> None:
    sent = list[dict[str, Any]]()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    guard = QueueGuard(app, SimpleNamespace(check_admission=refuse))  # type: ignore[arg-type]
    asyncio.run(guard({"type": "http", "method": "POST", "path": path}, body, send))
    assert sent[0]["status"] == HTTPStatus.TOO_MANY_REQUESTS and FULL.sentence.encode() in sent[1]["body"]
