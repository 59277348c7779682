"""Are several devices added together, or none of them?"""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from serving.cluster.node import State
from serving.edge.device_admin import Admin
from serving.scenario.refused_action import RefusedAction
from serving.scenario.scenario import Scenario

FAILED = "Device 3 did not come up: the other side has gone."


class Fleet:
    """Devices of which one fails to come up, and another can't be drained."""

    def __init__(self, error: BaseException, kept: int = -1) -> None:
        self.cluster = SimpleNamespace(scenario=Scenario())
        self.there = [0]
        self._error, self._kept = error, kept

    async def add(self, spec: Any, starts: Any) -> Any:
        index = max(self.there) + 1
        if index == 3:
            raise self._error
        self.there.append(index)
        return SimpleNamespace(index=index, state=State.SERVING)

    def drain(self, index: int) -> None:
        if index == self._kept:
            raise RefusedAction(f"Device {index} is lost: only one that is serving can be drained.")
        self.there.remove(index)


@pytest.mark.parametrize("error", [RefusedAction(FAILED), asyncio.CancelledError()])
@pytest.mark.parametrize(("kept", "left"), [(-1, [0]), (1, [0, 1])])
def test_if_one_fails_those_that_have_come_leave_again(error: BaseException, kept: int, left: list[int]) -> None:
    devices: Any = Fleet(error, kept)
    injector: Any = SimpleNamespace(reach=None)
    with pytest.raises(type(error)) as caught:
        asyncio.run(Admin(devices, injector).add_devices("3 x elmoe3d-4gb"))
    assert str(caught.value) == str(error) and devices.there == left
