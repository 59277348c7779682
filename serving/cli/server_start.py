"""A server's start before its event loop: a folder for its run, and vLLM imported once, for this process, its token
sources and its edges."""

import contextlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from serving.cli.start_progress import StartProgress
from serving.cluster.forks.preloading import can_fork_off, first_fork_server, import_vllm, may_fork
from serving.process.forks.forked_child import ForkedChild
from serving.process.process_priority import defer_garbage
from serving.process.run_folder import run_folder
from serving.scenario.scenario import Scenario
from serving.token_source.vllm_args import prepare_environment, provide_cache

EDGE = "serving.cli.edge_process"


class ServerStart(NamedTuple):
    """What a server's start has come to: its run's folder, who tells of its progress, whether token sources are forks,
    and what has been forked off: a first fork server, and edges that wait for their settings."""

    folder: Path
    progress: StartProgress
    forks: bool
    fork_server: ForkedChild | None = None
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
        if start.forks:
            progress("Importing vLLM ...")
            import_vllm()
            if can_fork_off():
                with progress.silent():
                    start = forked_off(start, scenario.edges)
        yield start


def forked_off(start: ServerStart, edges: int) -> ServerStart:
    """Return a start with a fork server, and edges if they are processes of their own."""
    folder, run = start.folder, lambda: import_module(EDGE).main()
    children = tuple(ForkedChild.reading(folder, run) for _ in range(edges if edges > 1 else 0))
    return start._replace(fork_server=first_fork_server(folder), edges=children)
