"""Recorded source: sends recorded answers to the devices of their requests."""

import asyncio
from collections.abc import Mapping

from serving.cluster.streams.senders import Senders
from serving.cluster.streams.sockets import Address
from serving.flight import Flight

# Tokens that a device reads at once without delaying a release.
PAGE = 512
PAUSE_S = 0.02
# Its index: nobody needs to know how far a device has got with what lies there whole.
RECORDED = -1


class RecordedSource:
    """A sender of whole answers, long ones page by page. It lies at the edge, so it cannot die alone."""

    def __init__(self) -> None:
        self._senders = Senders(RECORDED)

    def send(self, flight: Flight, position: int, addresses: Mapping[int, Address]) -> None:
        """Send a flight's answer, from `position` on, to its device, if that has an address."""
        self._page(flight, position, flight.sent_to, addresses)

    def close(self) -> None:
        """Drop all connections."""
        self._senders.connect({})

    def _page(self, flight: Flight, start: int, sent_to: object, addresses: Mapping[int, Address]) -> None:
        # A flight that has ended, or goes on elsewhere, gets no more pages this way.
        if flight.recorded is None or flight.device not in addresses or flight.sent_to != sent_to or flight.finish:
            return
        self._senders.connect(addresses)
        self._senders.send(flight.device, flight.recorded[start : start + PAGE])
        if start + PAGE < len(flight.recorded):
            asyncio.get_running_loop().call_later(PAUSE_S, self._page, flight, start + PAGE, sent_to, addresses)
