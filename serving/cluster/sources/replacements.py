"""The actors of token sources: started before anything else, and replaced by those that stand by."""

from collections.abc import Callable
from typing import Any


class SourceActors:
    """Those that run, by their indices, and those that stand by for any of them."""

    def __init__(self, start: Callable[[int], Any], count: int, standbys: int) -> None:
        """`start` starts an actor for the source of an index, and returns before it is there; `standbys` are started
        once the sources are ready."""
        self._start, self._wanted = start, standbys
        self.running = [start(index) for index in range(count)]
        self.standbys: list[Any] = []

    def replace(self, index: int) -> Any:
        """Put another actor in the place of one that is dead; return it."""
        another = self.standbys.pop(0) if self.standbys else self._start(index)
        self.running[index] = another
        return another

    def stand_by(self) -> None:
        """Have as many stand by as are wanted."""
        while len(self.standbys) < self._wanted:
            self.standbys.append(self._start(len(self.running) + len(self.standbys)))

    def lose_standby(self, actor: Any) -> None:
        """Replace one that stands by and is dead."""
        if actor in self.standbys:
            self.standbys.remove(actor)
            self.stand_by()
