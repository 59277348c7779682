"""The service of an emulated device: takes requests from the edge, tokens from a source, news from its scheduler."""

from serving.device.live_driver import LiveDriver
from serving.device.token_buffer import TokenBuffer
from serving.types import Chunk


class DeviceService:
    """A service that hands calls on to the driver and the buffers that the device has now."""

    def __init__(self) -> None:
        self._driver: LiveDriver | None = None
        self._tokens = TokenBuffer()

    def connect(self, driver: LiveDriver, tokens: TokenBuffer) -> None:
        """Hand calls on to this driver and these buffers from now on."""
        self._driver, self._tokens = driver, tokens

    def open(self, request_id: str, position: int) -> None:
        """Expect tokens of a request, from `position` of its output on."""
        self._tokens.open(request_id, position)

    def close(self, request_ids: list[str]) -> None:
        """Drop requests: tokens that still come for them are ignored."""
        for request_id in request_ids:
            self._tokens.close(request_id)

    def push(self, source: int, chunks: list[Chunk]) -> None:
        """Take in tokens from a source, by its index."""
        if self._driver is not None:
            self._tokens.note_source(source, chunks)
            self._driver.push(chunks)

    def poke(self) -> None:
        """Tell the driver that the batch has changed."""
        if self._driver is not None:
            self._driver.poke()
