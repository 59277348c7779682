"""GET /foreserve/v1/status, and the page that shows it, /ui. Like /metrics they are for everybody, and tell as much."""

from collections.abc import Callable
from importlib.resources import files

import msgspec
from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from serving.status import Status

PAGE = "ui.html"


def status_routes(status: Callable[[], Status]) -> APIRouter:
    """The routes; `status` says how things are."""
    routes = APIRouter()
    page = files("serving.api").joinpath(PAGE).read_text(encoding="utf-8")

    @routes.get("/foreserve/v1/status", include_in_schema=False)
    async def show_status() -> Response:
        return Response(msgspec.json.encode(status()), media_type="application/json")

    @routes.get("/ui", include_in_schema=False)
    async def show_page() -> HTMLResponse:
        return HTMLResponse(page)

    return routes
