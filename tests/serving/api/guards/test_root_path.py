"""Does whoever asks by way of a proxy's root path get what is at the path behind it, and need what that needs?"""

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from serving.api.guards.http_guard import HttpGuard
from serving.api.guards.root_path import WithoutRoot, WithRoot
from serving.security.access import Access
from serving.security.api_keys import digest

ACCESS = Access((digest("client"),), (digest("admin"),), loopback=False)
ROUTES = ("/health", "/v1/models", "/foreserve/v1/faults")


def server(root: str) -> Any:
    """Return an application with a root path behind the guard."""
    app = FastAPI(root_path=root)
    for path in ROUTES:
        app.add_api_route(path, lambda path=path: path)
    return WithoutRoot(HttpGuard(WithRoot(app, root), ACCESS), root)


def answered(root: str, path: str, key: str = "") -> object:
    """Return what a request comes to: the route that it finds, or its status."""

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(server(root)), base_url="http://x") as client:
            return await client.get(path, headers={"authorization": f"Bearer {key}"})

    answer = asyncio.run(ask())
    return answer.json() if answer.status_code == 200 else answer.status_code


@pytest.mark.parametrize("root", ["", "/p", "/inference", "/v1", "/foreserve"])
def test_a_path_needs_the_same_with_its_root_and_without(root: str) -> None:
    for prefix in {"", root}:
        needs = [[answered(root, prefix + path, key) for key in ("", "client", "admin")] for path in ROUTES]
        assert needs[0] == ["/health"] * 3, prefix
        # Without it, a route that begins as the root does is taken for one behind it, as by any router.
        if prefix or root not in ("/v1", "/foreserve"):
            assert needs[1:] == [[401, *["/v1/models"] * 2], [401, 403, "/foreserve/v1/faults"]], prefix


@pytest.mark.parametrize("path", ["/inference/inference/foreserve/v1/faults", "/inferences/foreserve/v1/faults"])
def test_a_root_is_taken_off_once_and_as_a_whole(path: str) -> None:
    assert answered("/inference", path, "client") in (403, 404)
    assert answered("/inference", path, "admin") == 404
