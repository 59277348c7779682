"""A server's start before its event loop: a folder for its run, Ray under way, and vLLM imported once, for this
process, its token sources and its edges."""

import contextlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from serving.cli.start_progress import StartProgress
from serving.cluster.forks.preloading import (
    actor_fork_server,
    can_fork_off,
    import_vllm,
    may_fork,
    source_fork_server,
)
from serving.cluster.session.ray_head import RayHead, begin_ray
from serving.cluster.session.ray_settings import is_joined
from serving.process.forks.forked_child import ForkedChild
from serving.process.process_priority import defer_garbage
from serving.process.run_folder import run_folder
from serving.scenario.scenario import Scenario
from serving.token_source.vllm_args import prepare_environment, provide_cache

EDGE = "serving.cli.edge_process"


class ServerStart(NamedTuple):
    """What a server's start has come to: its run's folder, who tells of its progress, whether token sources are forks,
    and what has been forked off: Ray's head, the first fork servers, and edges that wait for their settings."""

    folder: Path
    progress: StartProgress
    forks: bool
    ray: RayHead | None = None
    actor_forks: ForkedChild | None = None
    source_forks: ForkedChild | None = None
    edges: tuple[ForkedChild, ...] = ()


@contextlib.contextmanager
def begun(scenario: Scenario, progress: StartProgress) -> Iterator[ServerStart]:
    """Begin the start of a server; its run is over when the context ends. `progress` is told of each stage.

    Call this before Ray is imported, and before there is an event loop or a thread at work but that of progress, for
    what is forked off.
    """
    defer_garbage()
    with contextlib.ExitStack() as stack:
        prepare_environment(scenario.token_model)
        folder = stack.enter_context(run_folder())
        provide_cache(folder)
        start = ServerStart(folder, progress, may_fork())
        if can_fork_off() and not is_joined():
            with progress.silent():
                start = with_ray(start)
        if start.forks:
            progress("Importing vLLM ...")
            import_vllm()
            if can_fork_off():
                with progress.silent():
                    start = with_forks(start, scenario.edges)
        yield start


def with_ray(start: ServerStart) -> ServerStart:
    """Return a start with a Ray of its own, and what its actors are forks of, both under way: they take as long as vLLM
    to be imported."""
    head = begin_ray(start.folder)
    return start._replace(ray=head, actor_forks=actor_fork_server(start.folder))


def with_forks(start: ServerStart, edges: int) -> ServerStart:
    """Return a start with a fork server for token sources, and edges if they are processes of their own."""
    folder, run = start.folder, lambda: import_module(EDGE).main()
    children = tuple(ForkedChild.reading(folder, run) for _ in range(edges if edges > 1 else 0))
    return start._replace(source_forks=source_fork_server(folder), edges=children)
