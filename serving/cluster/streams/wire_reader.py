"""Wire reader: hands over what comes by a wire, on an event loop."""

import asyncio
from collections.abc import Callable, Sequence

from serving.cluster.streams.wire import Wire


class WireReader:
    """Hands over messages on the running loop, in callbacks, which cost much less than a coroutine that waits."""

    def __init__(
        self,
        wire: Wire,
        take: Callable[[Sequence[memoryview]], object],
        ended: Callable[[ConnectionError], object] = lambda error: None,
    ) -> None:
        """`take` gets the messages that are here together, `ended` hears once that the other side has gone, or makes no
        sense."""
        self._wire, self._take, self._ended = wire, take, ended
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(wire.fileno(), self._receive)

    def close(self) -> None:
        """Hand over nothing more, and drop the connection, with all that was not delivered."""
        if not self._wire.closed:
            self._loop.remove_reader(self._wire.fileno())
            self._wire.close()

    def _receive(self) -> None:
        try:
            messages = self._wire.receive()
        except ConnectionError as error:
            # Its descriptor would be readable for ever.
            self._loop.remove_reader(self._wire.fileno())
            self._ended(error)
            return
        self._take(messages)
