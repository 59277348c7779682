"""The service of an emulated device: takes requests from the edge, tokens from a source, news from its scheduler."""

from collections.abc import Callable

from serving.cluster.actor_proxies import ReleaseSink
from serving.cluster.streams.sockets import Address
from serving.device.device_spec import DeviceSpec
from serving.device.engine import Engine
from serving.device.live_driver import LiveDriver
from serving.device.token_buffer import TokenBuffer
from serving.types import Chunk, Release

Reprice = Callable[[Engine, DeviceSpec], object]


class DeviceService:
    """A service that hands calls on to the driver and the buffers that the device has now."""

    def __init__(self, index: int, sink: ReleaseSink) -> None:
        """`sink` gets the device's releases; `index` is the device's."""
        self._index, self._sink = index, sink
        self._driver: LiveDriver | None = None
        self._tokens = TokenBuffer()
        self._reprice: Reprice = lambda engine, spec: None

    def connect(self, driver: LiveDriver, tokens: TokenBuffer, reprice: Reprice) -> None:
        """Hand calls on to this driver and these buffers from now on; `reprice` has the engine emulate another spec."""
        self._driver, self._tokens, self._reprice = driver, tokens, reprice

    def open(self, request_id: str, position: int, inbox: Address | None) -> None:
        """Expect tokens of a request, from `position` of its output on. `inbox`: its edge's, if that has one."""
        self._sink.edges.open(request_id, inbox)
        self._tokens.open(request_id, position)

    def close(self, request_ids: list[str]) -> None:
        """Drop requests: tokens that still come for them are ignored."""
        for request_id in request_ids:
            self._tokens.close(request_id)
        self._sink.close(request_ids)

    def tell_unknown(self, request_ids: list[str]) -> None:
        """Tell the edge, after all that it is still to get of them, of which of these requests no tokens are
        expected."""
        if unknown := self._tokens.unknown(request_ids):
            self._sink(Release(self._index, 0.0, [], unknown=unknown))

    def awaited(self) -> dict[str, int]:
        """Return the requests that are owed tokens which have not come, each with the position of the first one."""
        return self._tokens.awaited()

    def unowed(self, request_ids: list[str]) -> list[str]:
        """Return those of some requests whose tokens are expected, and none of them is owed."""
        return self._tokens.unowed(request_ids)

    def push(self, source: int, chunks: list[Chunk]) -> None:
        """Take in tokens from a source, by its index."""
        if self._driver is not None:
            self._driver.push(chunks, source)

    def poke(self) -> None:
        """Tell the driver that the batch has changed."""
        if self._driver is not None:
            self._driver.poke()

    def emulate(self, spec: DeviceSpec, at_s: float) -> None:
        """Emulate another spec from emulated instant `at_s` on: the same device in another condition."""
        if self._driver is not None:
            self._reprice(self._driver.engine, spec)
            self._driver.change(at_s)

    def stall(self, until_s: float) -> None:
        """Stand still until an emulated instant."""
        if self._driver is not None:
            self._driver.stall(until_s)
