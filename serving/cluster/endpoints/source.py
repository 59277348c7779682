"""The service of a token source: takes requests from the edge, and reports of progress from devices."""

import logging
from typing import TYPE_CHECKING

from serving.cluster.streams.senders import Senders
from serving.cluster.streams.sockets import Address
from serving.types import FAILED, Chunk

if TYPE_CHECKING:
    from serving.token_source.vllm_source import VllmSource

log = logging.getLogger("foreserve")


class SourceService:
    """A service that hands calls on to vLLM's thread, which alone speaks to devices."""

    def __init__(self, source: "VllmSource", devices: Senders) -> None:
        self._source, self._devices = source, devices

    def connect(self, index: int, devices: dict[int, Address]) -> None:
        """Become the source of an index, which sends tokens to these devices, and to no others."""

        def connected() -> None:
            self._devices.source = index
            self._devices.connect(devices)

        self._source.do(connected)

    def add(self, request_id: str, request: list[bytes], device: int, known: list[int]) -> None:
        """Begin a request, encoded by `request_codec`, unless it is there already; `known` are tokens of it that an
        earlier source made.

        A request that cannot be read ends with an error.
        """
        if request_id in self._source.live:
            return  # told of again, perhaps with thousands of tokens, which need not be read
        from serving.token_source.request_codec import decode_request

        try:
            self._source.add(decode_request(request), device, known)
        except Exception as error:
            log.exception("The token source can't read request %s.", request_id)
            why = f"The token source can't read this request ({type(error).__name__})."
            failed = [Chunk(request_id, len(known), [], FAILED, why)]
            self._source.do(lambda: self._devices.send(device, failed))

    def warm_up(self, request_id: str, device: int, tokens: int) -> None:
        """Make tokens that no client waits for."""
        self._source.warm_up(request_id, device, tokens)

    def cost(self) -> tuple[float, float]:
        """Return the real seconds of a step, and those that each sequence in it adds."""
        return self._source.cost.line

    def drop(self, request_ids: list[str]) -> None:
        """Forget requests that are done or aborted."""
        self._source.drop(request_ids)

    def keep(self, request_ids: list[str]) -> None:
        """Forget all requests but these."""
        self._source.keep(request_ids)

    def resend(self, request_id: str, position: int, device: int) -> None:
        """Deliver again all tokens of a request from `position` of its output on, and those to come, to `device`."""
        self._source.resend(request_id, position, device)

    def remind(self, request_id: str, position: int, device: int) -> None:
        """Deliver again what a device lacks, if it is the request's: its tokens from `position` on have not come."""
        self._source.remind(request_id, position, device)

    def taken(self, positions: dict[str, int]) -> None:
        """Record the number of tokens that a device has taken of each request, by id."""
        self._source.taken(positions)
