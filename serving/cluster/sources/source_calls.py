"""The edge's calls of a token source, which come to it in their order."""

from collections.abc import Collection, Mapping
from typing import Any

from serving.cluster.streams.async_rpc import AsyncRpcClient
from serving.cluster.streams.sockets import Address
from serving.flight import Flight


class SourceCalls:
    """A connection to the present process of a token source; calls without a connection are dropped."""

    def __init__(self) -> None:
        self._client: AsyncRpcClient | None = None

    def connect(self, address: Address) -> None:
        """Connect to this address, on the running loop."""
        self.close()
        self._client = AsyncRpcClient(address)

    def close(self) -> None:
        """Disconnect; calls that wait for an answer raise ConnectionError."""
        if self._client is not None:
            self._client.close()

    def tell_addresses(self, index: int, devices: Mapping[int, Address]) -> None:
        """Have the source be that of an index, and send tokens to these devices, and to no others."""
        self._tell("connect", index, devices)

    def warm_up(self, request_id: str, device: int, tokens: int) -> None:
        """Have tokens made for a device that no client waits for."""
        self._tell("warm_up", request_id, device, tokens)

    def add(self, flight: Flight, known: list[int]) -> None:
        """Have a request's tokens made, the `known` ones again; a source that has it already ignores this."""
        from serving.token_source.request_codec import encode_request

        self._tell("add", flight.request.id, encode_request(flight.core_request), flight.device, known)

    def resend(self, flight: Flight, position: int) -> None:
        """Have a request's tokens from `position` of its output on, and those to come, sent to its device."""
        self._tell("resend", flight.request.id, position, flight.device)

    def drop(self, request_ids: Collection[str]) -> None:
        """Have the source forget requests."""
        self._tell("drop", list(request_ids))

    def keep(self, request_ids: Collection[str]) -> None:
        """Have the source forget all requests but these."""
        self._tell("keep", list(request_ids))

    async def cost(self) -> tuple[float, float]:
        """Return the real seconds of a step, and more for each sequence in it. Raise RpcError, or ConnectionError if
        the source is not there."""
        if self._client is None:
            raise ConnectionResetError("the token source is not connected")
        return await self._client.ask("cost", tuple[float, float])

    def _tell(self, method: str, *arguments: Any) -> None:
        if self._client is not None:
            self._client.tell(method, *arguments)
