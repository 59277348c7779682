"""GET /metrics and /dcgm/metrics, a family at a time: between two of them tokens may leave.

The library's own endpoint renders all at once, in 20 ms and more for eight devices, and all streams stand still. And
when Prometheus before 3.0 asks it for OpenMetrics, it makes `vllm_...` of `vllm:...` (prometheus_client 0.26). So the
answer is always in Prometheus's own text format, which every scraper reads.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Protocol

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from serving.telemetry.metrics.families import Family

ALL = "All metrics of the emulation, and of vLLM's front end."
DCGM = "Each device as NVIDIA's exporter would show a GPU."
ANSWER: dict[int | str, dict[str, Any]] = {200: {"description": "Families in Prometheus's text format, 0.0.4."}}
NAMES: dict[str, Any] = {
    "parameters": [
        {
            "name": "name[]",
            "in": "query",
            "description": "The series that are wanted; all of them if none is named.",
            "schema": {"type": "array", "items": {"type": "string"}},
        }
    ]
}


class Families(Protocol):
    """A registry, or a part of one."""

    def collect(self) -> Iterable[Metric]:
        """Return its families."""
        ...


class _One:
    """A registry of one family, for encoders that want a registry."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return [self._family]


def metrics_routes(
    registry: CollectorRegistry, dcgm: CollectorRegistry, hear: Callable[[], None] = lambda: None
) -> APIRouter:
    """Return the routes of the metrics. `hear` has metrics hear first of what waits to be told."""
    routes = APIRouter()
    for path, source, summary in (("/metrics", registry, ALL), ("/dcgm/metrics", dcgm, DCGM)):
        scrape, text = _scraper(source, hear), PlainTextResponse
        routes.add_api_route(path, scrape, summary=summary, response_class=text, responses=ANSWER, openapi_extra=NAMES)
    return routes


def in_text(family: Metric) -> bytes:
    """Return a family in Prometheus's text format."""
    if isinstance(family, Family):
        return family.written().encode()
    return generate_latest(_One(family))  # type: ignore[arg-type]  # of a registry, it only collects


def written(registry: CollectorRegistry) -> bytes:
    """Return all of a registry at once, as text."""
    return b"".join(in_text(family) for family in registry.collect())


async def parts_of(registry: Families) -> AsyncIterator[bytes]:
    """Yield a registry in Prometheus's text format, a family at a time: others go on between two of them."""
    for family in registry.collect():
        yield in_text(family)
        await asyncio.sleep(0)


def _scraper(registry: CollectorRegistry, hear: Callable[[], None]):  # type: ignore[no-untyped-def]  # FastAPI reads them
    async def scrape(request: Request) -> Response:
        hear()
        names = request.query_params.getlist("name[]")
        families = registry.restricted_registry(names) if names else registry
        parts = [part async for part in parts_of(families)]
        return Response(b"".join(parts), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return scrape
