"""Recorded source: sends recorded answers to the devices of their requests."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from serving.cluster.streams.senders import Senders
from serving.cluster.streams.sockets import Address
from serving.flight import Flight
from serving.types import Chunk

# Tokens that a device reads at once without delaying a release.
PAGE = 512
# Tokens beyond a client's last that its device has, or is sent: what another process's edge has the core hears of up to
# a tenth of a second later, in which a device at a high `--speed` makes a thousand. The page that is sent then is more.
AHEAD = 3 * PAGE
# Tokens of a client between two pages until its device is so far ahead: many answers may begin together.
STEP = 32
# Its index: nobody needs to know how far a device has got with what follows its clients.
RECORDED = -1


class Rest(NamedTuple):
    """The rest of an answer, from token `start` on: its next page is due once the client has more than `due` tokens, on
    the device that the request was `sent_to`."""

    start: int
    due: int
    sent_to: tuple[int, int] | None


class RecordedSource:
    """A sender of recorded answers: of a long one the first page at once, and the others as its client gets on. What is
    never read, as its request waits for long or its client goes, fills no device's memory.

    It lies at the edge, so it cannot die alone.
    """

    def __init__(self, addresses: Mapping[int, Address]) -> None:
        """`addresses`: those of the devices that are there, by index, at any time."""
        self._addresses, self._senders = addresses, Senders(RECORDED)
        self._rests: dict[str, Rest] = {}

    def send(self, flight: Flight, position: int) -> None:
        """Send a flight's answer, from `position` on, to its device, if that has an address. Nothing follows any more
        of what was sent of it before."""
        self._rests.pop(flight.request.id, None)
        # Its client may be further on already.
        self._page(flight, position, min(position, flight.made))
        self._follow(flight)

    def follow(self, news: Iterable[tuple[Flight, Chunk]]) -> None:
        """Send the pages that are due of answers whose clients have just got tokens."""
        # Asked with each release, and few answers have more than a page.
        if not self._rests:
            return
        for flight, _ in news:
            self._follow(flight)

    def drop(self, request_ids: Collection[str]) -> None:
        """Forget requests that are done or aborted."""
        for id in request_ids:
            self._rests.pop(id, None)

    def close(self) -> None:
        """Drop all connections."""
        self._senders.connect({})

    def _follow(self, flight: Flight) -> None:
        """Send the pages of an answer that are due by now."""
        while (rest := self._rests.get(flight.request.id)) and flight.made > rest.due:
            del self._rests[flight.request.id]
            if flight.sent_to == rest.sent_to:
                self._page(flight, rest.start, max(rest.start + PAGE - AHEAD, rest.due + STEP))

    def _page(self, flight: Flight, start: int, due: int) -> None:
        """Send a page to a flight's device, if that has an address; the next one is due when its client has more than
        `due` tokens."""
        if flight.recorded is None or flight.device not in self._addresses:
            return
        end = start + PAGE
        self._senders.connect(self._addresses)
        self._senders.send(flight.device, flight.recorded.page(start, end))
        if end < len(flight.recorded):
            self._rests[flight.request.id] = Rest(end, due, flight.sent_to)
