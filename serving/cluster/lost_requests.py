"""Lost requests: those without tokens that nobody computes, as a message about them got lost; found, and sent anew.

A device tells of those that it doesn't know by a release, which comes after those with their tokens: an edge that is
behind may have got none of a request for long, which its device has done with.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from serving.cluster.node import Node
from serving.cluster.streams.rpc import RpcError
from serving.flight import Flight
from serving.process.logs import fields

log = logging.getLogger("foreserve")

# Real seconds between two looks. Of a request without a token from one to the next its device is asked.
LOOK_S = 6.0
ANSWER_S = 2.0


class LostRequests:
    """A look, every `LOOK_S`, at requests that get no tokens: one that its device, or its scheduler, does not know
    (`take_unknown`) is sent to it again, and one that waits for its token source is told of there anew, as the device's
    own reminders may not reach it, or say nothing to a source that does not have the request. A device that waits for
    tokens of a request which has ended is told so: with it, all others there would wait for ever.

    A gap shows in the tokens that follow (`flight.gapped`); after an answer's end none do.
    """

    def __init__(
        self,
        flights: Mapping[str, Flight],
        nodes: Mapping[int, Node],
        remind: Callable[[Flight, int], object],
        send_again: Callable[[Node, list[Flight]], object],
    ) -> None:
        self._flights, self._nodes, self._remind, self._send_again = flights, nodes, remind, send_again
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
        """Ask the devices for requests that have had no token since the last look, and tell them again until when they
        stand still: the news of a stall's end may have got lost."""
        for node in self._nodes.values():
            node.tell_stall()
        seen, self._seen = self._seen, {id: (each.sent_to, each.made) for id, each in self._flights.items()}
        quiet: dict[tuple[int, int], list[Flight]] = {}
        for id, flight in self._flights.items():
            if flight.sent_to is not None and flight.opened and seen.get(id) == self._seen[id]:
                quiet.setdefault(flight.sent_to, []).append(flight)
        await asyncio.gather(*(self._ask(sent_to, flights) for sent_to, flights in quiet.items()))

    async def _ask(self, sent_to: tuple[int, int], quiet: list[Flight]) -> None:
        node, state = self._nodes[sent_to[0]], sent_to[1]
        if node.link.state != state:
            return
        node.calls.ask_unknown([flight.request.id for flight in quiet])
        # One that is gone, or slow, is asked again.
        with contextlib.suppress(TimeoutError, ConnectionError, RpcError):
            async with asyncio.timeout(ANSWER_S):
                awaited = await node.calls.awaited()
            if node.link.state != state:
                return
            # Of one that has ended since this look began, its device may not have heard yet.
            if strays := [id for id in awaited if id not in self._seen and id not in self._flights]:
                sentence = "Device %d waits for tokens of %d requests that have ended: it is told so."
                log.warning(sentence, node.index, len(strays), extra=fields(device=node.index))
                node.calls.drop(strays)
            for flight in quiet:
                position = awaited.get(flight.request.id)
                if position is not None and self._waits(flight):
                    # From where its device is: its client may have had more of an earlier one.
                    self._remind(flight, position)
                    await asyncio.sleep(0)  # where a source stands still they may be hundreds, with long prompts
            async with asyncio.timeout(ANSWER_S):
                unscheduled = await node.calls.unscheduled([flight.request.id for flight in quiet])
            self.take_unknown(node, unscheduled)

    def take_unknown(self, node: Node, request_ids: list[str]) -> None:
        """Send those of some requests that a device, or its scheduler, does not know to it again that have had no token
        since it was asked for them."""
        here = (node.index, node.link.state)
        asked = [flight for id in request_ids if (flight := self._flights.get(id)) and flight.sent_to == here]
        if lost := [flight for flight in asked if self._waits(flight)]:
            self._send_again(node, lost)
            for flight in lost:
                # What the device said of it before says nothing now.
                del self._seen[flight.request.id]

    def _waits(self, flight: Flight) -> bool:
        id = flight.request.id
        return self._flights.get(id) is flight and self._seen.get(id) == (flight.sent_to, flight.made)
