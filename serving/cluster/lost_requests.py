"""Lost requests: those that a device has no more, while their clients wait for tokens: what it sent last was lost."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from serving.cluster.node import Node
from serving.cluster.streams.rpc import RpcError
from serving.flight import Flight

log = logging.getLogger("foreserve")

# Real seconds between two looks. Of a request without a token from one to the next its device is asked.
LOOK_S = 6.0
ANSWER_S = 2.0


class LostRequests:
    """A look, every `LOOK_S`, at requests that get no tokens: one that its device does not know is sent to it again.

    A gap shows in the tokens that follow (`flight.gapped`); after an answer's end none do.
    """

    def __init__(
        self,
        flights: Mapping[str, Flight],
        nodes: Mapping[int, Node],
        send_again: Callable[[Node, list[Flight]], object],
    ) -> None:
        self._flights, self._nodes, self._send_again = flights, nodes, send_again
        self._seen: dict[str, tuple[object, int]] = {}

    async def run(self) -> None:
        """Look until cancelled, whatever happens to one look."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except Exception:
                log.exception("Nobody could look after requests that get no tokens.")

    async def look(self) -> None:
        """Ask the devices for requests that have had no token since the last look."""
        seen, self._seen = self._seen, {id: (each.sent_to, each.made) for id, each in self._flights.items()}
        quiet: dict[tuple[int, int], list[Flight]] = {}
        for id, flight in self._flights.items():
            if flight.sent_to is not None and flight.opened and seen.get(id) == self._seen[id]:
                quiet.setdefault(flight.sent_to, []).append(flight)
        await asyncio.gather(*(self._ask(sent_to, flights) for sent_to, flights in quiet.items()))

    async def _ask(self, sent_to: tuple[int, int], flights: list[Flight]) -> None:
        node = self._nodes[sent_to[0]]
        if node.link.state != sent_to[1]:
            return
        # One that is gone, or slow, is asked again.
        with contextlib.suppress(TimeoutError, ConnectionError, RpcError):
            async with asyncio.timeout(ANSWER_S):
                unknown = set(await node.calls.unknown([flight.request.id for flight in flights]))
            lost = [flight for flight in flights if flight.request.id in unknown and self._waits(flight)]
            if lost and node.link.state == sent_to[1]:
                self._send_again(node, lost)

    def _waits(self, flight: Flight) -> bool:
        id = flight.request.id
        return self._flights.get(id) is flight and self._seen.get(id) == (flight.sent_to, flight.made)
