"""Gate before the devices: an operator closes it to pause, and requests that come meanwhile wait."""

import asyncio


class Gate:
    """A gate that is open until it is closed."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._refusal: Exception | None = None

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

    def refuse(self, refusal: Exception) -> None:
        """Let nobody pass any more, who waits included."""
        self._refusal = refusal
        self._open.set()

    async def passed(self) -> None:
        """Wait until it is open. Raise the refusal if nobody passes any more."""
        if not self._open.is_set() and self._refusal is None:
            await self._open.wait()
        if self._refusal is not None:
            raise self._refusal
