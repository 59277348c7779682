"""GET /foreserve/v1/status and /foreserve/v1/history, for clients, and the page that shows them, /ui, for everybody: it
asks for a key where one is wanted."""

from collections.abc import Callable
from importlib.resources import files
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from serving.api.openapi import answered, refused
from serving.telemetry.status import Status
from serving.telemetry.status_history import StatusHistory

PAGE = "ui.html"
AFTER = "The first point that is wanted, counted from the start."
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may do, which may have a key: ask this server, and nobody else."""


def status_routes(status: Callable[[], Status], history: Callable[[int], StatusHistory]) -> APIRouter:
    """Return the routes of the status and its page; `status` says how things are, `history` how they were from the n-th
    point on."""
    routes = APIRouter()
    page = files("serving.api").joinpath(PAGE).read_text(encoding="utf-8")

    @routes.get("/foreserve/v1/status", responses=answered("How things are.", Status) | refused(401))
    async def show_status() -> Response:
        """Tell how the emulation is: its devices, SLO classes, latencies, and the host's pace."""
        return Response(msgspec.json.encode(status()), media_type="application/json")

    @routes.get("/foreserve/v1/history", responses=answered("Those points.", StatusHistory) | refused(400, 401))
    async def show_history(after: Annotated[int, Query(ge=0, description=AFTER)] = 0) -> Response:
        """Tell how the emulation was in its last hour, a point each five seconds."""
        return Response(msgspec.json.encode(history(after)), media_type="application/json")

    @routes.get("/ui", include_in_schema=False)
    async def show_page() -> HTMLResponse:
        return HTMLResponse(page, headers={"content-security-policy": POLICY})

    @routes.get("/", include_in_schema=False)
    async def show_where(request: Request) -> RedirectResponse:
        """Lead who asks for nothing to the page."""
        return RedirectResponse(request.scope.get("root_path", "") + "/ui")

    return routes
