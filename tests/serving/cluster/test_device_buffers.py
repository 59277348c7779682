"""Do all devices that may come back hear where token sources are?"""

from typing import Any

import pytest

from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.node import Node, State
from serving.cluster.streams.sockets import Address

SOURCES = {0: Address("here", "/run/source-0-77")}


class Handle:
    """What Ray gives for an actor: its methods have a `remote`, whose calls are kept here."""

    def __init__(self) -> None:
        self.told = list[Any]()
        self.follow = self
        self.remote = self.told.append


@pytest.mark.parametrize("state", State)
def test_a_device_is_told_unless_it_is_gone(state: State) -> None:
    """One that is lost while it is being mended was perhaps told the address of a source that has died since."""
    handle = Handle()
    node = Node(0, None, None, handle, None, None, state)  # type: ignore[arg-type]  # nothing but the handle is asked
    DeviceBuffers({0: node}).follow(SOURCES)
    assert handle.told == ([] if state is State.GONE else [SOURCES])
