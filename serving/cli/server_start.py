"""A server's start before its event loop: a folder for its run, and vLLM imported once, for this process and its token
sources."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from serving.cli.start_progress import StartProgress
from serving.cluster.sources.preloading import first_fork, import_vllm, may_fork
from serving.process.forked_child import ForkedChild
from serving.process.process_priority import defer_garbage
from serving.process.run_folder import run_folder
from serving.token_source.vllm_args import prepare_environment, provide_cache


class ServerStart(NamedTuple):
    """What a server's start has come to: its run's folder, who tells of its progress, and a first fork server."""

    folder: Path
    progress: StartProgress
    forked: ForkedChild | None


@contextlib.contextmanager
def begun(token_model: str, say: Callable[[str], None]) -> Iterator[ServerStart]:
    """Begin the start of a server; its run is over when the context ends. `say` gets progress, a line each.

    Call this before Ray is imported, and before there is an event loop or a thread at work: token sources are forks.
    """
    defer_garbage()
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(StartProgress(say))
        prepare_environment(token_model)
        folder = stack.enter_context(run_folder())
        provide_cache(folder)
        forked = None
        if may_fork():
            progress("Importing vLLM ...")
            import_vllm()
            with progress.silent():
                forked = first_fork(folder)
        yield ServerStart(folder, progress, forked)
