"""Who hears of what happens at the edge: the step log, traces and log lines are all made from it."""

from typing import TYPE_CHECKING

from serving.call import Call
from serving.flight import Flight
from serving.types import Chunk, Dropped, Release

if TYPE_CHECKING:
    from serving.cluster.cluster import Node


class Observer:
    """Hears of everything and does nothing about it; made to be extended. Called in the edge's event loop."""

    def on_begin(self, flight: Flight) -> None:
        """A request is about to be sent to its device."""

    def on_release(self, release: Release, news: list[tuple[Flight, Chunk]]) -> None:
        """A device has released tokens; `news` are those that clients have not seen, and their flights do not know."""

    def on_move(self, flight: Flight) -> None:
        """A request goes on elsewhere: on the device that its flight now names."""

    def on_finish(self, flight: Flight) -> None:
        """A request has ended, for the reason that its flight now names."""

    def on_answer(self, call: Call) -> None:
        """A call was answered, or broken off; its requests may have a moment to live."""

    def on_fault(self, device: int, kind: str, begins: bool) -> None:
        """A fault came over a device, or is over."""

    def on_change(self, node: "Node") -> None:
        """A device has joined, or is in another state or condition."""

    def on_restart(self, actor: str) -> None:
        """An actor died and came back: `token source`, or `device 0`."""

    def on_dropped(self, receiver: str, dropped: Dropped) -> None:
        """Messages to `edge`, or `device 0`, could not be read."""
