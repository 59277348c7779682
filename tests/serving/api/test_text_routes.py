"""Are our fields heard, and calls traced, on each route that asks for text?"""

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from vllm.entrypoints.launchers.app import build_app
from vllm.entrypoints.serve.exception_handling.error_response import create_error_response

from serving.api.body_options import BodyOptions
from serving.api.guards.body_guard import BodyGuard
from serving.api.http_openai import FREQUENT
from serving.call import TEXT_ROUTES, Call, asks_for_text, stamp
from serving.clock import WallClock
from serving.scenario.scenario import Scenario
from serving.token_source.vllm_args import parse_flags, vllm_flags

CREATES = ("create_chat_completion", "create_batch_chat_completion", "create_completion")
TALK = [{"role": "user", "content": "Hello"}]


async def refuse(*_: Any) -> Any:
    return create_error_response(ValueError("Not here."))


@pytest.fixture(scope="module")
def app() -> FastAPI:
    """vLLM's application, with nothing but the wrappers of what serves chat and completions."""
    made = build_app(parse_flags(vllm_flags(Scenario(), 4096)), ("generate",), None)
    serving = BodyOptions(SimpleNamespace(**dict.fromkeys(CREATES, refuse)), False, None)
    for name in ("openai_serving_chat", "openai_serving_chat_batch", "openai_serving_completion"):
        setattr(made.state, name, serving)
    made.state.enable_server_load_tracking = False
    return made


def called(app: Any, path: str) -> Call:
    """The call of a body with a field of ours."""
    body = {"model": "m", "prompt": "Hello", "messages": [TALK] if path.endswith("/batch") else TALK, "slo": "gold"}
    calls: list[Call] = []

    async def stamped(scope: Any, receive: Any, send: Any) -> None:
        calls.append(stamp(WallClock(0.0), route=path))
        await BodyGuard(app, Scenario(), 4096, 16)(scope, receive, send)

    async def ask() -> None:
        transport = httpx.ASGITransport(stamped, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            await client.post(path, json=body)

    asyncio.run(ask())
    return calls[0]


@pytest.mark.parametrize("path", TEXT_ROUTES)
def test_our_fields_are_heard_on_each_route_that_asks_for_text(app: FastAPI, path: str) -> None:
    assert called(app, path).body == {"slo": "gold"} and asks_for_text(path)


def test_what_asks_for_text_is_named_once() -> None:
    assert set(FREQUENT) <= {path for path, keeps in TEXT_ROUTES.items() if keeps}
    assert not asks_for_text("/v1/models") and asks_for_text("/foreserve.v1.OpenAI/StreamChatCompletion")
    assert asks_for_text("/vllm.grpc.engine.VllmEngine/Generate")
