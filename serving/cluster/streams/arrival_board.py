"""Arrival board: when requests came that are on their way from an edge to a scheduler, for the devices of this host.

Milliseconds pass until a request is read, its tokens counted, judged and routed. A device that plans a step meanwhile
would leave it out, though it has come in time. Asking every edge would take longer than that: so they keep these
instants in memory that they share with the devices.
"""

import mmap
from pathlib import Path

from serving.types import NEVER

# Edges that can post; the requests of others are not waited for.
PLACES = 32
FILE, BYTES = "arrivals", 8 * PLACES
NONE = 0.0
EMPTY = bytes(BYTES)


class ArrivalBoard:
    """A place for each edge, with the emulated instant at which the earliest of its requests came that is on its way.

    Reading or writing one takes no lock: it is eight bytes, which a processor moves at once.
    """

    def __init__(self, folder: Path) -> None:
        """Open the board in a run's folder, or make it."""
        with (folder / FILE).open("a+b") as file:
            file.truncate(BYTES)
            self._bytes = mmap.mmap(file.fileno(), BYTES)
        self._instants = memoryview(self._bytes).cast("d")

    def post(self, edge: int, at_s: float) -> None:
        """Put an instant in an edge's place; `NONE` if nothing of it is on its way."""
        if edge < PLACES:
            self._instants[edge] = at_s

    def earliest_s(self, since_s: float) -> float:
        """Return the earliest instant on the board after `since_s`; `NEVER` if there is none. What is older was left
        there by an edge that is gone."""
        if self._bytes[:] == EMPTY:
            return NEVER
        after_s = max(NONE, since_s)
        return min((at_s for at_s in self._instants.tolist() if at_s > after_s), default=NEVER)
