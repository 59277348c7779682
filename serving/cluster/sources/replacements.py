"""The actors of token sources: started before anything else, and replaced by standbys."""

from collections.abc import Awaitable, Callable
from typing import Any


class SourceActors:
    """The actors that run, by their indices, and the standbys for any of them."""

    def __init__(
        self,
        start: Callable[[int], Any],
        count: int,
        standbys: int,
        look: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`start` starts an actor for the source of an index, and returns before it is up; `standbys` are started once
        the sources are ready. `look` looks where an actor may start, which may take long."""
        self._start, self._wanted, self._look = start, standbys, look
        self.running = [start(index) for index in range(count)]
        self.standbys: list[Any] = []

    async def replace(self, index: int) -> None:
        """Put another actor in the place of a dead one."""
        if self._look is not None and not self.standbys:
            await self._look()
        self.running[index] = self.standbys.pop(0) if self.standbys else self._start(index)

    def stand_by(self) -> None:
        """Start standbys until there are as many as are wanted."""
        while len(self.standbys) < self._wanted:
            self.standbys.append(self._start(len(self.running) + len(self.standbys)))

    def lose_standby(self, actor: Any) -> None:
        """Replace a dead standby; ignore an actor that is none."""
        if actor in self.standbys:
            self.standbys.remove(actor)
            self.stand_by()
