"""OpenAI over HTTP: vLLM's own application, mounted on the emulated engine."""

import asyncio
from argparse import Namespace
from functools import partial
from http import HTTPStatus
from math import ceil
from typing import Any

import uvicorn
from fastapi import FastAPI
from vllm.entrypoints.launchers.api_server.app_state import init_app_state
from vllm.entrypoints.launchers.app import build_app
from vllm.entrypoints.serve.exception_handling.error_response import create_error_response

from serving.api.body_options import BodyOptions
from serving.api.core_proxy import CoreProxy
from serving.api.guards.body_guard import BodyGuard
from serving.api.guards.cross_origin import allow_origins
from serving.api.guards.http_guard import HttpGuard
from serving.api.guards.queue_guard import IntakeGuard, QueueGuard
from serving.api.guards.root_path import WithoutRoot, WithRoot
from serving.api.guards.validation_guard import guard_invocations, guard_validation
from serving.api.http_errors import send_error
from serving.api.http_load import LoadCount
from serving.api.http_protocol import WIRE, BoundedProtocol, handshake_limit
from serving.api.large_answers import make_apart
from serving.api.quiet_failures import be_quiet_about_failures
from serving.api.quiet_server import QuietServer
from serving.api.streams.plain_stream_split import stream_chat_plainly, stream_completions_plainly
from serving.api.streams.response_stream import judge_responses
from serving.api.streams.stream_route import stream_shortly
from serving.api.text_fingerprint import tell_source
from serving.api.tool_choice import choose_tools
from serving.call import Call
from serving.edge.async_llm import EmulatedLLM
from serving.edge.preflight import PreparedScenario
from serving.edge.refusals import Invalid, Overflow
from serving.process.process_priority import set_heap_aside
from serving.scenario.scenario import is_bundled

# Longer than clients keep a connection that they may use again (httpx, and so the openai client, for 5 s): else one is
# closed now and then in the moment in which a request is sent through it.
KEEP_ALIVE_S = 75
GRACE_S = 2
LOOK_S = 0.01

FREQUENT = ("/v1/chat/completions", "/v1/completions")
# What vLLM answers for a kind of model that none of ours is, or for ranks that it starts itself: 404 says it sooner.
UNSERVED = ("/v1/systemone", "/scale_elastic_ep", "/is_scaling_elastic_ep")


class CallMiddleware:
    """ASGI middleware: stamps arrivals, tells a client that was turned away (429) when to come back, and all of them
    what is left of their limits."""

    def __init__(self, app: Any, engine: EmulatedLLM) -> None:
        self._app = app
        self._engine = engine

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        call = self._engine.stamp(scope["headers"], scope["path"])
        call.wire = scope.get(WIRE)

        async def annotate(message: Any) -> None:
            if message["type"] == "http.response.start":
                call.status = str(message["status"])
                if message["status"] == 429:
                    after_s = self._engine.retry_after_s() if call.retry_after_s is None else call.retry_after_s
                    call.answer["retry-after"] = str(ceil(after_s))
                more = [(name.encode(), value.encode()) for name, value in call.answer.items()]
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        await self._app(scope, receive, AdmissionGate(call, annotate).send)


class AdmissionGate:
    """Answers a call once its requests are judged, or with the refusal of one of them."""

    def __init__(self, call: Call, send: Any) -> None:
        self._call, self._send, self._refused = call, send, False

    async def send(self, message: Any) -> None:
        """Send a part of the answer, unless that has turned into a refusal."""
        if message["type"] == "http.response.start" and message["status"] == HTTPStatus.OK:
            try:
                await self._call.judged()
            except (Overflow, Invalid) as refusal:
                self._refused = True
                error = create_error_response(refusal).model_dump()["error"]
                await send_error(self._send, int(error["code"]), error)
        if not self._refused:
            await self._send(message)


async def make_app(engine: EmulatedLLM, args: Namespace) -> FastAPI:
    """vLLM's application with all its routes; `args` are vLLM's own command-line arguments."""
    # vLLM's own engine is made of the same arguments, and then they say which parser of thoughts it has.
    args.structured_outputs_config = engine.vllm_config.structured_outputs_config
    tasks = await engine.get_supported_tasks()
    guard_invocations()
    app: FastAPI = build_app(args, tasks, engine.model_config)
    served = [route for route in app.router.routes if getattr(route, "path", "") not in UNSERVED]
    # A request is compared with one route after the other, three times: by the router and by two who count requests.
    app.router.routes = sorted(served, key=lambda route: getattr(route, "path", "") not in FREQUENT)
    guard_validation(app)
    await init_app_state(engine, app.state, args, tasks)
    state = app.state
    stream_chat_plainly(state.openai_serving_chat, engine.output_processor)
    stream_completions_plainly(state.openai_serving_completion, engine.output_processor)
    judge_responses(state.openai_serving_responses)
    make_apart(state)
    be_quiet_about_failures()
    guided = is_bundled(engine.model_config.model)
    if guided:
        choose_tools(state, args.tool_call_parser)
    for name in ("openai_serving_chat", "openai_serving_chat_batch", "openai_serving_completion"):
        serving = getattr(state, name)
        tell_source(serving)
        setattr(state, name, BodyOptions(serving, guided, args.tool_call_parser))
    create = state.openai_serving_chat.create_chat_completion, state.openai_serving_completion.create_completion
    stream_shortly(app.router.routes, dict(zip(FREQUENT, create, strict=True)), args.sse_keep_alive_interval)
    return app


class HttpServer:
    """Uvicorn on a socket that is bound already, without signal handlers of its own."""

    def __init__(
        self, app: FastAPI, engine: EmulatedLLM, prepared: PreparedScenario, private: str = "", core: str = ""
    ) -> None:
        """`private`: a Unix socket to listen on instead, for other edges. `core`: the one of the engine core, if that
        is another process."""
        bounds = prepared.scenario
        context, places = engine.model_config.max_model_len, engine.scheduler_config.max_num_queued_reqs
        root = app.root_path or ""
        counted = LoadCount(BodyGuard(IntakeGuard(WithRoot(app, root), engine), bounds, context, places))
        app.state.in_flight = counted.in_flight
        stack: Any = allow_origins(app, CallMiddleware(QueueGuard(counted, engine), engine))
        if core:
            stack = CoreProxy(stack, core, bounds, context, places)
        config = uvicorn.Config(
            WithoutRoot(HttpGuard(stack, prepared.access), root),
            http=partial(BoundedProtocol, bounds),  # type: ignore[arg-type]  # called as the class would be
            ws="none",
            # None: to whoever listens to the root logger, as what we say ourselves.
            log_config=None,
            log_level="warning",
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
            ssl_context_factory=None if private else _tls_of(prepared),
            uds=private or None,
        )
        self._server = app.state.server = QuietServer(config)
        self._sockets = None if private else [prepared.sock]
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen; returns once a client can connect."""
        # As its application starts, vLLM has the collector look three times through whatever it can see.
        set_heap_aside()
        self._task = asyncio.create_task(self._server.serve(sockets=self._sockets))
        # Uvicorn has no event for this, only the flag.
        while not self._server.started and not self._task.done():
            await asyncio.sleep(LOOK_S)
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """Close the listening socket and every connection."""
        self._server.should_exit = True
        if self._task:
            await asyncio.gather(self._task, return_exceptions=True)


def _tls_of(prepared: PreparedScenario) -> Any:
    """Return the factory of uvicorn's TLS context; None without TLS."""
    tls = prepared.tls
    return None if tls is None else lambda _config, _default: tls.http_context(handshake_limit(prepared.scenario))
