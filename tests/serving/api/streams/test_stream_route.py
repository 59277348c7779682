"""Is what the short way of streams answers what vLLM's application answers without it, to whatever is asked?"""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from vllm.entrypoints.launchers.app import build_app
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.serve.exception_handling.error_response import create_error_response

from serving.api.guards.body_guard import BodyGuard
from serving.api.guards.validation_guard import guard_validation
from serving.api.streams.stream_route import StreamRoute, stream_shortly
from serving.scenario.scenario import Scenario
from serving.token_source.vllm_args import parse_flags, vllm_flags

PATH = "/v1/chat/completions"
TALK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
PLAIN_JSON = "application/json"
TYPES = (PLAIN_JSON, "application/json; charset=utf-8", "application/json ; x", "Application/JSON", "text/plain")


class Talker:
    """In vLLM's place: says what it was asked, or fails as the first message wants it to."""

    def __init__(self) -> None:
        self.closed = 0

    async def create_chat_completion(self, request: ChatCompletionRequest, raw_request: Any) -> Any:
        said = str(request.messages[0].get("content"))
        if said == "wrong":
            return create_error_response(ValueError("It is wrong."))
        if said == "value":
            raise ValueError("Not such a value.")
        if said == "bug":
            raise RuntimeError("A bug.")
        if said == "late":
            raise TimeoutError("Too late.")
        return self._events(said, raw_request.headers.get("x-own", ""))

    async def _events(self, said: str, own: str) -> AsyncGenerator[str, None]:
        try:
            for word in (said, own, "é"):
                yield f"data: {word}\n\n"
            if said == "endless":
                await asyncio.sleep(60)
        finally:
            self.closed += 1


def app_of(talker: Talker, short: bool) -> FastAPI:
    args = parse_flags(vllm_flags(Scenario(), 4096))
    app = build_app(args, ("generate",), None)
    guard_validation(app)
    app.state.openai_serving_chat, app.state.enable_server_load_tracking = talker, False
    if short:
        stream_shortly(app.router.routes, {PATH: talker.create_chat_completion}, 0.0)
        assert any(isinstance(getattr(route, "app", None), StreamRoute) for route in app.router.routes)
    return app


@pytest.fixture(scope="module")
def apps() -> tuple[FastAPI, FastAPI]:
    return app_of(Talker(), short=True), app_of(Talker(), short=False)


def asked(**fields: Any) -> bytes:
    return json.dumps(TALK | {"stream": True} | fields).encode()


def said(word: str) -> bytes:
    return asked(messages=[{"role": "user", "content": word}])


BODIES = {
    "a stream": asked(),
    "none": asked(stream=False),
    "a word for it": asked(stream="yes"),
    "a word for none": asked(stream="no"),
    "a number for it": asked(stream=2),
    "fields of ours": asked(topic="law", priority=3),
    "no messages": asked(messages=None),
    "a wrong type": asked(max_tokens="many"),
    "what vLLM's validators stumble over": asked(tool_choice={"type": "function"}),
    "options of no stream": asked(stream=False, stream_options={"include_usage": True}),
    "a list": b"[1, 2]",
    "no JSON": b'{"stream": true',
    "nothing": b"",
    "bytes": b'{"stream": true, "model": "\xff"}',
    "twice the same": b'{"stream": false, "model": "m", "messages": [], "stream": true}',
    "an error": said("wrong"),
    "a refusal": said("value"),
    "a bug": said("bug"),
    "an error of time": said("late"),
}


def answered(app: FastAPI, body: bytes, kind: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body; where the application raises in the end, as servers log it, what it has answered."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.post(PATH, content=body, headers={"content-type": kind, "x-own": "mine"})

    answer = asyncio.run(ask())
    return answer.status_code, dict(answer.headers), answer.content


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", BODIES)
def test_the_short_way_answers_as_the_whole_one(apps: tuple[FastAPI, FastAPI], name: str, kind: str) -> None:
    short, whole = (answered(app, BODIES[name], kind) for app in apps)
    assert short == whole
    if (name, kind) == ("a stream", PLAIN_JSON):
        assert short[0] == 200 and short[2].decode() == "data: Hello\n\ndata: mine\n\ndata: é\n\n"


@pytest.mark.parametrize(
    ("stream", "is_short"), [(True, True), ("yes", True), (1, True), (False, False), ("no", False), ("false", False)]
)
def test_only_what_is_a_stream_to_vllm_goes_the_short_way(
    apps: tuple[FastAPI, FastAPI], stream: Any, is_short: bool
) -> None:
    (route,) = (each.app for each in apps[0].router.routes if isinstance(getattr(each, "app", None), StreamRoute))
    assert (route._stream_in(asked(stream=stream)) is not None) == is_short


def test_a_stream_is_over_once_its_client_has_gone() -> None:
    talker = Talker()
    app = app_of(talker, short=True)

    async def run() -> None:
        parts = iter([{"type": "http.request", "body": said("endless"), "more_body": False}])
        gone, sent = asyncio.Event(), list[Any]()

        async def receive() -> Any:
            if (part := next(parts, None)) is not None:
                return part
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            if "é" in message.get("body", b"").decode():
                gone.set()

        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": PATH, "headers": headers, "query_string": b""}
        await asyncio.wait_for(app(scope | {"root_path": ""}, receive, send), 10)
        assert talker.closed == 1 and sent[-1].get("more_body")

    asyncio.run(run())


def test_what_the_guard_has_parsed_is_not_parsed_again() -> None:
    app, sent = BodyGuard(app_of(Talker(), short=True), Scenario(), 4096, 16), list[bytes]()
    parts = iter([{"type": "http.request", "body": said("once"), "more_body": False}])

    async def receive() -> Any:
        return next(parts, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    def parse_again(body: bytes) -> None:
        raise AssertionError(body)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": PATH, "headers": headers, "query_string": b"", "root_path": ""}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("serving.api.streams.stream_route.json.loads", parse_again)
        asyncio.run(app(scope, receive, send))
    assert b"".join(sent).startswith(b"data: once\n\n")


def test_with_comments_to_keep_a_stream_alive_it_goes_the_whole_way() -> None:
    app = app_of(Talker(), short=False)
    stream_shortly(app.router.routes, {PATH: Talker().create_chat_completion}, 1.0)
    assert not any(isinstance(getattr(route, "app", None), StreamRoute) for route in app.router.routes)
