"""Senders of tokens to the devices of an emulation, which come, go, and come back elsewhere."""

from collections.abc import Mapping

from serving.cluster.streams.rpc import RpcTeller
from serving.cluster.streams.sockets import Address
from serving.types import Chunk


class Senders:
    """The connections to all devices, by index. For one thread at a time."""

    def __init__(self, source: int = 0) -> None:
        """`source`: the index of the token source that sends; it may change."""
        self.source = source
        self._all: dict[int, tuple[Address, RpcTeller]] = {}

    def connect(self, addresses: Mapping[int, Address]) -> None:
        """Send to these addresses from now on, and to no others."""
        for index in [index for index, (known, _) in self._all.items() if addresses.get(index) != known]:
            self._all.pop(index)[1].close()
        for index in addresses.keys() - self._all.keys():
            self._all[index] = (addresses[index], RpcTeller(addresses[index]))

    def send(self, index: int, chunks: list[Chunk]) -> None:
        """Send tokens to a device; one that has no address is gone, and gets none."""
        if index in self._all:
            self._all[index][1].tell("push", self.source, chunks)
