"""Unsent requests: those of this process's front end that are not in flight yet, each of which an abort ends at once.

vLLM's front end forgets an aborted request, and tells its client; whoever is on the way to a device would be served
there all the same, for nobody.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any


class UnsentRequests:
    """The tasks of requests that wait for something before they are in flight, by vLLM's id inside."""

    def __init__(self) -> None:
        self.is_wanted: Callable[[str], bool] = lambda id: True
        """Tells whether a request was not aborted: the front end still has it."""
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    async def send(self, id: str, sending: Callable[[], Awaitable[None]]) -> None:
        """Do what brings a request into flight, but not for one that is aborted, before or meanwhile."""
        if not self.is_wanted(id):
            # One of several choices, which are sent one after the other, and aborted together.
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks[id] = task
        try:
            await sending()
        except asyncio.CancelledError:
            # Of its own client, who may go away at the same time, the task is to hear.
            if id in self._tasks or task.uncancel():
                raise
        finally:
            self._tasks.pop(id, None)

    def abort(self, ids: Iterable[str]) -> None:
        """End the sending of those of some requests that are not in flight yet. Not to be called while one is sent by
        the same task."""
        for id in ids:
            if task := self._tasks.pop(id, None):
                task.cancel()
