"""Direct streams: hand tokens of plain streams from a release to their connections, past vLLM's output handler."""

import logging
from collections.abc import Callable, Container, Sequence
from typing import Protocol, TypeVar

from serving.edge.delivery.plain_stream import PlainStream

log = logging.getLogger("foreserve")


class Tokens(Protocol):
    """Tokens of one request: a device's `Chunk`, or the output of an engine core in another process."""

    @property
    def request_id(self) -> str: ...


Given = TypeVar("Given", bound=Tokens)


class DirectStreams:
    """Plain streams by request id. One is direct once nothing of its request is queued for vLLM's output handler any
    more, so that its text stays in order; until then it waits."""

    def __init__(self) -> None:
        self._direct: dict[str, PlainStream] = {}
        self._waiting: dict[str, PlainStream] = {}
        self._given: dict[str, PlainStream] = {}

    def add(self, stream: PlainStream) -> None:
        """Let a stream become direct as soon as its text would be in order."""
        self._waiting[stream.request_id] = stream

    def remove(self, request_id: str) -> None:
        """Hand nothing more to a request's stream."""
        for streams in (self._waiting, self._direct, self._given):
            streams.pop(request_id, None)

    @property
    def waiting(self) -> bool:
        """Tell whether any stream is not direct yet."""
        return bool(self._waiting)

    def open(self, queued: Container[str]) -> None:
        """Make waiting streams direct, but for those of requests that have something `queued`."""
        held = {id for id in self._waiting if id in queued}
        self._direct |= {id: stream for id, stream in self._waiting.items() if id not in held}
        self._waiting = {id: self._waiting[id] for id in held}

    def take(self, news: Sequence[Given], plain: Callable[[Given], Sequence[int] | None]) -> list[Given]:
        """Give direct streams what is theirs, to be written by `flush`; return the rest.

        `plain` returns the tokens of what has nothing else, and None for the rest, such as a request's last token: from
        then on its stream is not direct.
        """
        rest, given = list[Given](), self._given
        for each in news:
            if (stream := self._direct.get(each.request_id)) is None:
                rest.append(each)
            elif (tokens := plain(each)) is None:
                del self._direct[each.request_id]
                rest.append(each)
            else:
                stream.add(tokens)
                given[each.request_id] = stream
        return rest

    def flush(self) -> dict[str, str]:
        """Write what was given to direct streams, all tokens of one at once; return the requests whose text could not
        be written, each with a sentence for its client."""
        failed = dict[str, str]()
        given, self._given = self._given, {}
        for id, stream in given.items():
            try:
                stream.flush()
            except Exception as error:
                self.remove(id)
                log.exception("The text of a request could not be written.", extra={"request": id})
                failed[id] = f"The text of this request could not be written: {error}"
        return failed
