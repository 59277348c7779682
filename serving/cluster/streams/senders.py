"""Senders to several receivers, such as the devices of an emulation: these come, go, and come back elsewhere."""

from collections.abc import Mapping
from typing import Generic

from serving.cluster.streams.stream import Address, Message, Sender


class Senders(Generic[Message]):
    """One sender to each receiver, by its index. For one thread at a time."""

    def __init__(self) -> None:
        self._all: dict[int, tuple[Address, Sender[Message]]] = {}

    def connect(self, addresses: Mapping[int, Address]) -> None:
        """Send to these from now on, and to no others."""
        for index in [index for index, (known, _) in self._all.items() if addresses.get(index) != known]:
            self._all.pop(index)[1].close()
        for index in addresses.keys() - self._all.keys():
            self._all[index] = (addresses[index], Sender(addresses[index]))

    def send(self, index: int, message: Message) -> None:
        """Send a message to a receiver; one that has no address is gone, and gets none."""
        if index in self._all:
            self._all[index][1].send(message)
