"""A crowd at the event loop, which has others to serve as well."""

import asyncio


class Turnstile:
    """Lets tasks in one at a time, each in a turn of the event loop of its own.

    The prompts of one call, or the calls of a crowd, then keep others' tokens waiting for one of them, and not for all.
    """

    def __init__(self) -> None:
        self._gate = asyncio.Lock()

    async def enter(self) -> None:
        """Wait for a turn; what follows, up to the next await, is it."""
        async with self._gate:
            await asyncio.sleep(0)
