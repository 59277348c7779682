"""GET /ready: whether a request that comes now would be served, and each part by name. (/health, which vLLM has, says
whether the process is worth keeping.)"""

from typing import TypedDict

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from serving.cluster.readiness import Readiness


class ReadyAnswer(TypedDict):
    """Whether a request would be served, whether one ever will be again, and each part's state by name."""

    ready: bool
    live: bool
    parts: dict[str, str]


def health_routes(readiness: Readiness) -> APIRouter:
    """Return the route of `/ready`, for whoever asks."""
    routes = APIRouter()

    # For probes, which have no key. What OpenAPI tells of wants one, but for routes of vLLM's.
    @routes.get("/ready", include_in_schema=False)
    async def show_ready() -> JSONResponse:
        """Tell whether the emulation can serve, with 200 or 503, and how each of its parts is."""
        ready = readiness.ready
        told = ReadyAnswer(ready=ready, live=readiness.live, parts=readiness.parts())
        return JSONResponse(told, status_code=200 if ready else 503)

    return routes
