"""RPC endpoint: the common part of actors that other processes call."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from serving.cluster.actor_process import this_node
from serving.cluster.streams.rpc import RpcServer
from serving.cluster.streams.sockets import Address
from serving.cluster.streams.stream import Drops
from serving.cluster.supervision.heartbeat import Heartbeat
from serving.process.run_folder import share


class RpcEndpoint:
    """A socket in the run's folder, and a thread that answers the calls of methods that come to it."""

    def __init__(
        self,
        name: str,
        edge: Address,
        methods: Sequence[Callable[..., Any]],
        overdue_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`edge` tells the run's folder, and whether other nodes may call; `overdue_s` by how many real seconds another
        loop of the actor is late."""
        folder = joined_folder(edge)
        self._drops, self._overdue_s = Drops(), overdue_s
        self._server = RpcServer([*methods, self.pulse], folder, name, others=edge.keys is not None)
        self.address = self._server.address
        threading.Thread(target=self._server.run, args=[self._drops.add], daemon=True).start()

    def pulse(self) -> Heartbeat:
        """Return the heartbeat of the thread, and of the actor's other loops."""
        overdue_s = max(self._overdue_s(), self._server.overdue_s)
        return Heartbeat.of_this(overdue_s, self._drops.all, self.address.path)


def joined_folder(edge: Address) -> Path:
    """Return the folder of the run that the edge has started, which is there on this host too from now on."""
    if this_node() != edge.node:
        share(edge.folder)
    return edge.folder
