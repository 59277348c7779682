"""GET /load: requests in flight, under `--enable-server-load-tracking`, as vLLM has it; without, 0, as vLLM says then.

vLLM's own count misses clients that leave a stream.
"""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from serving.call import TEXT_ROUTES


class LoadCount:
    """ASGI middleware: counts the requests that make text, from when they have a place until they are answered."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._now = 0

    def in_flight(self) -> int:
        """Return how many there are now."""
        return self._now

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        counts = scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in TEXT_ROUTES
        self._now += counts
        try:
            await self._app(scope, receive, send)
        finally:
            self._now -= counts


def load_routes() -> APIRouter:
    """Return the route of `/load`; `app.state.in_flight` tells the count."""
    routes = APIRouter()

    @routes.get("/load")
    async def show_load(request: Request) -> JSONResponse:
        """Tell how many requests are in flight, if that is tracked."""
        state = request.app.state
        return JSONResponse({"server_load": state.in_flight() if state.enable_server_load_tracking else 0})

    return routes
