"""Work in the background: of a context, or of whoever keeps it until it is done."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

log = logging.getLogger("foreserve")

# Real seconds before work that never ends begins again after an error.
AGAIN_S = 1.0

T = TypeVar("T")


@contextlib.asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run a coroutine for as long as the context lasts, as the task that is yielded; at the context's end it is
    cancelled, and waited for."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class BackgroundTasks:
    """Tasks for which nobody waits: kept, as the event loop keeps none. Their errors are logged, but for those that are
    `expected`."""

    def __init__(self, *expected: type[Exception]) -> None:
        self._expected = expected
        self._tasks = set[asyncio.Task[Any]]()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start work that ends; return its task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    def keep_up(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start work that never ends; again `AGAIN_S` after an error, as nobody else would see to it."""
        self.start(_kept_up(work))

    def stop(self) -> None:
        """Cancel all that has not ended."""
        for task in self._tasks:
            task.cancel()

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, self._expected):
            log.error("Work in the background has failed.", exc_info=error)


async def _kept_up(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while True:
        try:
            await work()
        except Exception:
            log.exception("Work in the background has failed; it begins again.")
        await asyncio.sleep(AGAIN_S)
