"""Pulse line: how a watchdog asks an actor for its heartbeat, at a tenth of what a call of Ray's costs."""

import asyncio
import contextlib

from serving.cluster.streams.async_rpc import AsyncRpcClient
from serving.cluster.streams.rpc import RpcError
from serving.cluster.streams.sockets import Address
from serving.cluster.supervision.heartbeat import Heartbeat
from serving.cluster.supervision.watched_part import WatchedPart

ANSWER_S = 1.0
"""Real seconds for an answer by its socket, before Ray is asked: only Ray knows whether an actor is still there."""


class PulseLine:
    """A line to one part: to its own socket once it has told of that, if it is on this node, and by Ray until then and
    whenever it does not answer."""

    def __init__(self) -> None:
        self._client: AsyncRpcClient | None = None

    async def heartbeat(self, part: WatchedPart) -> Heartbeat:
        """Ask a part for its heartbeat. Raise RayError if it is dead."""
        if self._client is not None:
            with contextlib.suppress(ConnectionError, RpcError, TimeoutError):
                async with asyncio.timeout(ANSWER_S):
                    return await self._client.ask("pulse", Heartbeat)
            self.hang_up()
        heartbeat = await part.pulse()
        if heartbeat.socket and heartbeat.process.is_here:
            with contextlib.suppress(OSError):  # it may have died since
                self._client = AsyncRpcClient(Address(heartbeat.process.node_id, heartbeat.socket), self.hang_up)
        return heartbeat

    def hang_up(self) -> None:
        """Drop the connection to its socket: Ray is asked next."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
