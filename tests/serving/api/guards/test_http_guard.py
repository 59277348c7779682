"""Whom HTTP lets in: every route of vLLM's application and of ours, by every method, with every kind of wrong key."""

import asyncio
import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from starlette.routing import Mount

from serving.api.guards.http_guard import CLIENTS, INFERENCE, PUBLIC, HttpGuard, need_of
from serving.security.access import Access, Need
from serving.security.api_keys import digest

README = Path(__file__).parents[4] / "serving" / "api" / "README.md"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW")
WRONG = (
    *(
        None,
        "",
        "Bearer",
        "Bearer ",
        "bearer",
        "Bearer wrong",
        "Basic right",
        "right",
        "Bearer  right",
        "Bearer right ",
    ),
    *("Bearer rightx", "Bearer righ", "Bearer RIGHT", "Bearer right,right", "Bearer right\0"),
    *("Bearer \u00ff", "\tright"),
)
KEYED = Access((digest("other"), digest("right")), (), loopback=True)
ADMINISTERED = Access((digest("right"),), (digest("root"),), loopback=True)
LOCAL = {"host": "127.0.0.1:8000"}


class Inner:
    """What the guard guards: it counts who came through."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls += 1


def run(coroutine: Any) -> None:
    """What `asyncio.run` does, a thousand times as fast: nothing here waits."""
    with pytest.raises(StopIteration):
        coroutine.send(None)


def knock(
    access: Access, path: str, method: str = "GET", authorization: str | None = None, **more: Any
) -> tuple[int, Any]:
    """The status of a request, 0 if it is let in; and the body."""
    headers = LOCAL | more.pop("headers", {}) | ({} if authorization is None else {"authorization": authorization})
    scope = {"type": "http", "method": method, "path": path, "root_path": ""} | more
    scope["headers"] = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    inner, sent = Inner(), []

    async def send(message: Any) -> None:
        sent.append(message)

    run(HttpGuard(inner, access)(scope, None, send))
    if inner.calls:
        return 0, None
    if sent[0]["type"] == "websocket.close":
        return 403, None
    return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.fixture(scope="module")
def app() -> FastAPI:
    """All that there could be: vLLM's for every task, with what it has for development, and ours."""
    from vllm.entrypoints.launchers.app import build_app
    from vllm.tasks import SupportedTask

    from serving.api.http_admin import admin_routes
    from serving.api.http_metrics import metrics_routes
    from serving.api.http_status import status_routes
    from serving.scenario.scenario import Scenario
    from serving.token_source.vllm_args import parse_flags, prepare_environment, vllm_flags

    prepare_environment(Scenario().token_model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_SERVER_DEV_MODE", "1")
        app: FastAPI = build_app(parse_flags(vllm_flags(Scenario(), 1024)), typing.get_args(SupportedTask), None)
    app.include_router(admin_routes(SimpleNamespace()))  # type: ignore[arg-type]
    app.include_router(status_routes(lambda: None, lambda after: None))  # type: ignore[arg-type, return-value]
    app.router.routes[:0] = metrics_routes(CollectorRegistry(), CollectorRegistry()).routes
    return app


def walk(routes: Any, before: str = "") -> Iterator[tuple[str, set[str]]]:
    """The path and the methods of each route, those of what is mounted included; a websocket's has none."""
    for route in routes:
        path = before + route.path
        if isinstance(route, Mount):
            yield from ((path + "/", set(METHODS)), (path + "/below", set(METHODS)))
            yield from walk(route.routes or (), path)
        else:
            yield path, set(getattr(route, "methods", None) or ())


def test_every_route_by_every_method_wants_a_key_but_those_for_everybody(app: FastAPI) -> None:
    paths = dict.fromkeys(path for path, _ in walk(app.routes))
    assert len(paths) > 60
    for path in paths:
        for method in METHODS:
            for header in WRONG:
                status, body = knock(KEYED, path, method, header)
                if path in PUBLIC and method in ("GET", "HEAD"):
                    assert status == 0
                    continue
                assert status == 401, (method, path, header)
                error = body["error"]
                assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
                assert "Authorization: Bearer" in error["message"]
            assert knock(KEYED, path, method, "Bearer right")[0] == 0
            assert knock(KEYED, path, method, "bearer other")[0] == 0


def test_what_is_for_everybody_is_there_and_only_to_be_read(app: FastAPI) -> None:
    methods: dict[str, set[str]] = {}
    for path, allowed in walk(app.routes):
        methods.setdefault(path, set()).update(allowed)
    assert {path for path in PUBLIC if path not in methods} <= {"/ready"}
    for path in PUBLIC & methods.keys():
        assert methods[path] - {"GET", "HEAD"} <= ({"POST"} if path == "/ping" else set())


def test_what_is_not_inference_is_the_admins(app: FastAPI) -> None:
    admins = {path for path, _ in walk(app.routes) if need_of({"path": path, "method": "POST"}) is Need.ADMIN_KEY}
    # Whoever updates vLLM looks at what is new here: is it for clients, or not?
    assert admins == {
        *(
            "/foreserve/v1/devices",
            "/foreserve/v1/devices/{index}",
            "/foreserve/v1/faults",
            "/foreserve/v1/faults/{id}",
        ),
        *("/metrics/", "/metrics/below", "/kv_event_sources", "/server_info", "/collective_rpc", "/abort_requests"),
        *("/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache", "/release_kv_cache_memory"),
        *("/sleep", "/wake_up", "/is_sleeping", "/pause", "/resume", "/is_paused", "/get_world_size"),
        *("/scale_elastic_ep", "/is_scaling_elastic_ep", "/init_weight_transfer_engine"),
        *("/shutdown_weight_transfer_engine", "/start_weight_update", "/start_draft_weight_update"),
        *("/update_weights", "/finish_weight_update", "/update_weight_version", "/weight_info", "/weight_checker"),
    }
    for path in admins:
        assert knock(ADMINISTERED, path, "POST", "Bearer right")[0] == 403
        assert knock(ADMINISTERED, path, "POST", "Bearer wrong")[0] == 401
        assert knock(ADMINISTERED, path, "POST", "Bearer root")[0] == 0


@pytest.mark.parametrize("path", ["/v1/completions", "/foreserve/v1/status", "/foreserve/v1/history"])
def test_the_admins_key_opens_what_clients_keys_do(path: str) -> None:
    assert knock(ADMINISTERED, path, "POST", "Bearer root")[0] == 0
    assert knock(ADMINISTERED, path, "POST", "Bearer right")[0] == 0


ODD = (
    "/{}",
    "//{}",
    "/./{}",
    "/{}/",
    "/{}//",
    "/{}/.",
    "/x/../{}",
    "/{}%2e",
    "/{};",
    "/{}?",
    "/{}#",
    "/{} ",
    "\\{}",
    "{}",
)


@pytest.mark.parametrize("odd", ODD)
def test_no_way_of_writing_a_path_gets_around_it(odd: str) -> None:
    for known in ("v1/completions", "foreserve/v1/devices", "pause", "invocations", "health/../v1/completions"):
        assert knock(KEYED, odd.format(known), "POST")[0] == 401
    for public in PUBLIC:
        written = odd.format(public[1:])
        assert knock(KEYED, written)[0] == (0 if written == public else 401)


def test_what_is_mounted_below_a_path_of_our_callers_is_nobodys() -> None:
    assert knock(KEYED, "/health", root_path="/health")[0] == 401
    assert knock(ADMINISTERED, "/health", "GET", "Bearer right", root_path="/x")[0] == 403


@given(st.text(), st.sampled_from((*METHODS, None)), st.sampled_from(("http", "websocket", "webtransport")))
def test_whatever_is_not_known_wants_a_key(path: str, method: str | None, kind: str) -> None:
    scope = {"path": path, "method": method}
    assert need_of(scope) is not Need.NOTHING or (path in PUBLIC and method in ("GET", "HEAD"))
    if kind != "http" or path not in PUBLIC:
        assert knock(KEYED, path, method or "GET", type=kind)[0] in (401, 403)


def test_a_websocket_wants_a_key_too() -> None:
    for path in ("/v1/realtime", "/health", "/metrics", "/x"):
        scope = {"type": "websocket", "path": path, "headers": [(b"authorization", b"Bearer wrong")]}
        inner, sent = Inner(), []

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        asyncio.run(HttpGuard(inner, KEYED)(scope, None, send))
        assert not inner.calls and [message["type"] for message in sent] == ["websocket.close"]
        scope["headers"] = [(b"Authorization", b"Bearer right"), (b"host", b"localhost")]
        asyncio.run(HttpGuard(inner, KEYED)(scope, None, send))
        assert inner.calls == 1


def test_of_two_headers_the_first_counts() -> None:
    scope = {"type": "http", "method": "GET", "path": "/v1/models", "root_path": ""}
    for keys, calls in (((b"Bearer wrong", b"Bearer right"), 0), ((b"Bearer right", b"Bearer wrong"), 1)):
        inner = Inner()

        async def send(message: Any) -> None: ...

        scope["headers"] = [(b"authorization", key) for key in keys]  # type: ignore[assignment]
        asyncio.run(HttpGuard(inner, KEYED)(scope, None, send))
        assert inner.calls == calls


def test_beyond_this_machine_nobody_is_the_admin_without_a_key_for_it() -> None:
    for api in ((), (digest("right"),)):
        access = Access(api, (), loopback=False)
        status, body = knock(access, "/foreserve/v1/devices", "POST", "Bearer right")
        assert status == 403
        assert "--admin-key-file" in body["error"]["message"] and "FORESERVE_ADMIN_KEY" in body["error"]["message"]
        assert knock(access, "/v1/models", "GET", "Bearer right")[0] == 0
    assert knock(Access((digest("right"),), (), loopback=False), "/pause", "POST")[0] == 401


def test_with_no_key_at_all_this_machine_may_do_everything() -> None:
    for path in ("/v1/models", "/foreserve/v1/faults", "/pause", "/tokenize"):
        for host in ("localhost", "localhost:8000", "127.0.0.1", "127.8.9.1:80", "[::1]:8000", "[::1]"):
            assert knock(Access(), path, "POST", headers={"host": host})[0] == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "attacker.example"},
        {"host": "127.0.0.1.attacker.example:8000"},
        {"host": ""},
        {"host": "[::1.attacker.example"},
        {"origin": "https://attacker.example"},
        {"origin": "http://127.0.0.1.attacker.example:8000"},
        {"origin": "null"},
        {"x-forwarded-for": "203.0.113.7"},
        {"forwarded": "for=203.0.113.7"},
        {"via": "1.1 proxy"},
    ],
)
def test_but_not_a_page_from_elsewhere_in_a_browser_here_nor_who_is_behind_a_proxy(headers: dict[str, str]) -> None:
    status, body = knock(Access(), "/foreserve/v1/faults", "POST", headers=headers)
    assert status == 403 and "Without an admin key" in body["error"]["message"]
    # Nor who has a client's key there: behind a proxy on this machine all clients would be the admin.
    access = Access(api=(digest("client"),))
    assert knock(access, "/foreserve/v1/faults", "POST", "Bearer client", headers=headers)[0] == 403
    assert knock(access, "/foreserve/v1/faults", "POST", headers=headers)[0] == 401
    assert knock(access, "/foreserve/v1/faults", "POST", "Bearer client")[0] == 0
    # With an admin key it is whoever has that.
    access = Access(admin=(digest("right"),))
    assert knock(access, "/foreserve/v1/faults", "POST", "Bearer right", headers=headers)[0] == 0


def test_a_page_of_this_machine_may() -> None:
    assert knock(Access(), "/foreserve/v1/faults", "POST", headers={"origin": "http://localhost:3000"})[0] == 0


def test_what_needs_an_api_key_is_not_for_everybody() -> None:
    assert not PUBLIC & CLIENTS
    assert not [path for path in PUBLIC if path.startswith(INFERENCE)]


def test_the_end_of_an_application_is_no_request() -> None:
    inner = Inner()
    asyncio.run(HttpGuard(inner, KEYED)({"type": "lifespan"}, None, None))
    assert inner.calls == 1


def test_the_readme_tells_operators_of_routes_that_are_there(app: FastAPI) -> None:
    table = README.read_text(encoding="utf-8").partition("## For operators")[2].splitlines()
    named = {path for row in table if row[:3] == "| `" for path in re.findall(r"(/[a-z_/0-9]+)", row.split("|")[1])}
    assert {"/load", "/pause", "/resume", "/is_paused", "/sleep", "/foreserve/v1/history"} <= named
    assert all(
        f"`{what}" in "".join(table) for what in ("VLLM_SERVER_DEV_MODE=1 ", "-- --enable-server-load-tracking`")
    )
    paths = app.openapi()["paths"]
    assert named - set(paths) == {"/ready"}, "only the one that is not mounted here"


def test_a_browser_may_ask_without_a_key_what_a_page_may_send() -> None:
    headers = [(b"origin", b"https://app.example"), (b"access-control-request-method", b"POST")]
    asked = {"type": "http", "method": "OPTIONS", "path": "/v1/chat/completions", "headers": headers}
    assert need_of(asked) is Need.NOTHING
    assert need_of(asked | {"headers": headers[:1]}) is Need.API_KEY
    assert need_of(asked | {"method": "POST"}) is Need.API_KEY
    assert need_of(asked | {"path": "/foreserve/v1/faults"}) is Need.ADMIN_KEY
