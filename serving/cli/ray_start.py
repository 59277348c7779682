"""Ray's start, with the fork servers that its workers come from."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

from serving.cli.server_start import ServerStart
from serving.cluster.forks.fork_servers import NO_FORKS, Forks, forking
from serving.cluster.forks.preloading import ACTORS, SOURCES
from serving.cluster.session.ray_node import tell
from serving.cluster.session.ray_session import own_node, ray_at, ray_in
from serving.cluster.session.ray_settings import is_joined
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
    """Connect to a Ray that has begun to start, start one, or join another one's, for as long as the context lasts.
    Workers of somebody else's may be on any node: they are no forks. Raise UsageError."""
    async with contextlib.AsyncExitStack() as stack:
        sources = actors = NO_FORKS
        if start.forks:
            sources = await stack.enter_async_context(forking(start.folder, SOURCES, start.source_forks))
        if start.ray is not None:
            stack.push_async_callback(start.ray.end)
        # Elsewhere vLLM itself is still to be imported, which is for the main thread (`build_engine`).
        waits = start.ray is None or not start.ray.is_up
        with importing(*(LATER if start.forks and waits else ())):
            stack.enter_context(ray_of(start))
        if not is_joined():
            actors = await stack.enter_async_context(forking(start.folder, ACTORS, start.actor_forks))
        yield WorkerForks(sources, actors)


@contextlib.contextmanager
def ray_of(start: ServerStart) -> Iterator[None]:
    """Provide the Ray of a server while the context lasts; one of its own is told of in its run's folder."""
    if start.ray is not None:
        with ray_at(start.ray.address()):
            yield
        return
    with ray_in(start.folder, spare_workers=False):
        if not is_joined():
            tell(start.folder, own_node())
        yield
