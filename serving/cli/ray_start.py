"""Ray's start, with the fork servers that its workers come from."""

import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

from serving.cli.server_start import ServerStart
from serving.cluster.forks.fork_servers import ACTORS, NO_FORKS, SOURCES, Forks, forking
from serving.cluster.ray_session import is_joined, ray_in, worker_environment
from serving.process.background_imports import importing

# What is needed once Ray has started, for which the server's process only waits.
LATER = (
    "serving.edge.async_llm",
    "serving.edge.device_admin",
    "serving.telemetry.watch",
    "serving.api.http_openai",
    "serving.api.http_metrics",
    "serving.api.http_status",
    "serving.api.grpc_server",
    "serving.api.warm_up",
)


class WorkerForks(NamedTuple):
    """What Ray's workers are forks of: token sources, and all others; each may be forks of nothing."""

    sources: Forks
    actors: Forks


@contextlib.asynccontextmanager
async def started_ray(start: ServerStart) -> AsyncIterator[WorkerForks]:
    """Start Ray, or join another one's, for as long as the context lasts. Workers of somebody else's may be on any
    node: they are no forks. Raise UsageError."""
    async with contextlib.AsyncExitStack() as stack:
        sources = actors = NO_FORKS
        if start.forks:
            sources = await stack.enter_async_context(forking(start.folder, SOURCES, start.fork_server))
        # Elsewhere vLLM itself is still to be imported, which is for the main thread (`build_engine`).
        with importing(*(LATER if start.forks else ())):
            stack.enter_context(ray_in(start.folder, spare_workers=False))
        if not is_joined():
            actors = await stack.enter_async_context(forking(start.folder, ACTORS, environment=worker_environment()))
        yield WorkerForks(sources, actors)
