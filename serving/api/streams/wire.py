"""A response's connection, for what is written to it past the application, the server's middleware and its tasks."""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec


class Cycle(Protocol):
    """Uvicorn's account of a request and its response, as far as it is asked for here."""

    transport: Any
    flow: Any
    disconnected: bool
    response_complete: bool
    chunked_encoding: bool | None


class HttpWire:
    """Writes parts of a response's body, as uvicorn would write each."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle

    def writer(self, head: str, tail: str) -> Callable[[str], bool]:
        """Return what writes text as a JSON string between these, at once; it says whether that could be: not to a
        client that is slower than what is written to it, or gone."""
        cycle, flow, write = self._cycle, self._cycle.flow, self._cycle.transport.write
        before, after, encode = head.encode(), tail.encode(), msgspec.json.encode

        def write_text(text: str) -> bool:
            if flow.write_paused or cycle.disconnected or cycle.response_complete or not cycle.chunked_encoding:
                return False
            body = before + encode(text) + after
            write(b"%x\r\n%b\r\n" % (len(body), body))
            return True

        return write_text
