"""Gate before the devices: an operator closes it to pause, and requests that come meanwhile wait."""

import asyncio


class Gate:
    """A gate that is open until it is closed."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    @property
    def closed(self) -> bool:
        """Tell whether requests wait."""
        return not self._open.is_set()

    def close(self) -> None:
        """Have requests wait from now on."""
        self._open.clear()

    def open(self) -> None:
        """Let those that wait, and all others, pass."""
        self._open.set()

    async def passed(self) -> None:
        """Wait until it is open."""
        if not self._open.is_set():
            await self._open.wait()
