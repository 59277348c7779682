"""Log lines of what becomes of devices: their states, their faults, and messages that nobody could read."""

import logging
import time
from collections.abc import Iterable

from serving.cluster.node import Node, State
from serving.cluster.observer import EdgeObserver
from serving.process.logs import fields
from serving.types import DroppedMessages

log = logging.getLogger("foreserve.devices")

# Whoever sends nonsense can send much of it: there is a line about it this often, in seconds.
TOLD_S = 10.0


class DeviceLog(EdgeObserver):
    """Tells what changes. That `nodes` come to serve when a server starts is no news."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._states = {node.index: State.SERVING for node in nodes}
        self._told_at: dict[str, float] = {}
        self._untold: dict[str, int] = {}

    def on_change(self, node: Node) -> None:
        if self._states.get(node.index) != node.state:
            self._states[node.index] = node.state
            level = logging.WARNING if node.state is State.LOST else logging.INFO
            more = fields(device=node.index, state=str(node.state), hardware=str(node.spec.member))
            log.log(level, "Device %d is %s.", node.index, node.state, extra=more)

    def on_fault(self, device: int, kind: str, begins: bool) -> None:
        more = fields(device=device, fault=kind, begins=begins)
        word = "begins" if begins else "ends"
        log.log(logging.WARNING if begins else logging.INFO, "A fault %s on device %d.", word, device, extra=more)

    def on_dropped(self, receiver: str, dropped: DroppedMessages) -> None:
        count = self._untold[receiver] = self._untold.get(receiver, 0) + dropped.count
        if time.monotonic() - self._told_at.get(receiver, -TOLD_S) < TOLD_S:
            return
        self._told_at[receiver], self._untold[receiver] = time.monotonic(), 0
        more = fields(receiver=receiver, messages=count)
        log.warning("Messages to the %s were dropped, as they can't be read: %s.", receiver, dropped.why, extra=more)
