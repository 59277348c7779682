"""vLLM's server of HTTP, which does not wake ten times a second to see whether it is to end."""

import asyncio
import contextlib

from vllm.entrypoints.launchers.launcher import NoSignalServer

DATE_S = 1.0
"""Real seconds after which answers bear another date."""
DATE_TICK = 0
"""The count of uvicorn's at which it sets the date."""


class QuietServer(NoSignalServer):  # type: ignore[misc]
    """A server that sleeps until the date changes, or `should_exit` is set: next to streams that share the processor's
    caches a tick costs a tenth of a millisecond."""

    @property
    def should_exit(self) -> bool:
        """Whether it is to end."""
        return self._ends.is_set()

    @should_exit.setter
    def should_exit(self, ends: bool) -> None:
        if not hasattr(self, "_ends"):  # uvicorn sets this first
            self._ends = asyncio.Event()
        if ends:
            self._ends.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(DATE_TICK):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ends.wait(), DATE_S)
