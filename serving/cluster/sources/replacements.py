"""The actors of token sources: started before anything else, and replaced by standbys."""

from collections.abc import Callable
from typing import Any


class SourceActors:
    """The actors that run, by their indices, and the standbys for any of them."""

    def __init__(self, start: Callable[[int], Any], count: int, standbys: int) -> None:
        """`start` starts an actor for the source of an index, and returns before it is up; `standbys` are started once
        the sources are ready."""
        self._start, self._wanted = start, standbys
        self.running = [start(index) for index in range(count)]
        self.standbys: list[Any] = []

    def replace(self, index: int) -> Any:
        """Put another actor in the place of a dead one; return it."""
        another = self.standbys.pop(0) if self.standbys else self._start(index)
        self.running[index] = another
        return another

    def stand_by(self) -> None:
        """Start standbys until there are as many as are wanted."""
        while len(self.standbys) < self._wanted:
            self.standbys.append(self._start(len(self.running) + len(self.standbys)))

    def lose_standby(self, actor: Any) -> None:
        """Replace a dead standby; ignore an actor that is none."""
        if actor in self.standbys:
            self.standbys.remove(actor)
            self.stand_by()
