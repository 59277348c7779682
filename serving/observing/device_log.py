"""Log lines of what becomes of devices: their states, and their faults."""

import logging
from collections.abc import Iterable

from serving.cluster import Node, State
from serving.observing.logs import fields
from serving.observing.observer import Observer

log = logging.getLogger("foreserve.devices")


class DeviceLog(Observer):
    """Knows the states of `nodes`, and tells what changes."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._states = {node.index: node.state for node in nodes}

    def on_change(self, node: Node) -> None:
        if self._states.get(node.index) != node.state:
            self._states[node.index] = node.state
            level = logging.WARNING if node.state is State.LOST else logging.INFO
            more = fields(device=node.index, state=str(node.state), hardware=str(node.emulated.member))
            log.log(level, "Device %d is %s.", node.index, node.state, extra=more)

    def on_fault(self, device: int, kind: str, begins: bool) -> None:
        more = fields(device=device, fault=kind, begins=begins)
        word = "begins" if begins else "ends"
        log.log(logging.WARNING if begins else logging.INFO, "A fault %s on device %d.", word, device, extra=more)
