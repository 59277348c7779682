"""Turn queue: spreads a crowd of tasks over turns of the event loop."""

import asyncio


class TurnQueue:
    """Admits one task per turn of the event loop.

    The prompts of one call, or the calls of a crowd, then delay others' tokens by one of them, and not by all.
    """

    def __init__(self) -> None:
        self._gate = asyncio.Lock()

    async def enter(self) -> None:
        """Wait for a turn, which lasts until the caller's next await."""
        async with self._gate:
            await asyncio.sleep(0)
