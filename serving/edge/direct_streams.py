"""Direct streams: hand tokens of plain streams from a release to their connections, past vLLM's output handler."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from serving.edge.plain_stream import PlainStream

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

    def add(self, stream: PlainStream) -> None:
        """Let a stream become direct as soon as its text would be in order."""
        self._waiting[stream.request_id] = stream

    def remove(self, request_id: str) -> None:
        """Hand nothing more to a request's stream."""
        self._waiting.pop(request_id, None)
        self._direct.pop(request_id, None)

    @property
    def waiting(self) -> bool:
        """Tell whether any stream is not direct yet."""
        return bool(self._waiting)

    def open(self, queued: Iterable[str]) -> None:
        """Make waiting streams direct, but for those of requests that have something `queued`."""
        held = self._waiting.keys() & set(queued)
        self._direct |= {id: stream for id, stream in self._waiting.items() if id not in held}
        self._waiting = {id: self._waiting[id] for id in held}

    def take(
        self, news: Sequence[Given], plain: Callable[[Given], Sequence[int] | None]
    ) -> tuple[list[Given], dict[str, str]]:
        """Write what goes to direct streams; return what does not, and the requests whose text could not be written,
        each with a sentence for its client.

        `plain` returns the tokens of what has nothing else, and None for the rest, such as a request's last token: from
        then on its stream is not direct. All tokens that one release gives a request are written at once.
        """
        rest, given, failed = list[Given](), dict[str, PlainStream](), dict[str, str]()
        for each in news:
            if (stream := self._direct.get(each.request_id)) is None:
                rest.append(each)
            elif (tokens := plain(each)) is None:
                del self._direct[each.request_id]
                rest.append(each)
            else:
                stream.add(tokens)
                given[each.request_id] = stream
        for id, stream in given.items():
            try:
                stream.flush()
            except Exception as error:
                self.remove(id)
                log.exception("The text of a request could not be written.", extra={"request": id})
                failed[id] = f"The text of this request could not be written: {error}"
        # Whose text is not whole does not end well, though its last token is here.
        return [each for each in rest if each.request_id not in failed], failed
