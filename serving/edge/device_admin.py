"""The operator's actions on devices while they serve, behind the admin API of either protocol."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from device_model.specs.spec import DeviceError
from serving.cluster.device_manager import Devices
from serving.cluster.fault_injector import FaultInjector, InjectedFault
from serving.cluster.node import Node, State
from serving.device.device_spec import DeviceSpec
from serving.scenario.faults import Fault, parse_fault
from serving.scenario.refused_action import MalformedAction, RefusedAction
from serving.usage_error import UsageError


class Admin:
    """Answers in plain dictionaries with the fields of `protos/foreserve/v1/admin.proto`. Raise `RefusedAction`."""

    def __init__(self, devices: Devices, injector: FaultInjector) -> None:
        self._devices = devices
        self._injector = injector

    def list_devices(self) -> dict[str, Any]:
        """Return all devices, lost ones included."""
        return {"devices": [self._device(node) for node in self._devices.nodes.values()]}

    async def add_devices(self, text: str) -> dict[str, Any]:
        """Add devices, written as an entry of a scenario's `fleet`; return them. If one of them fails, none is added:
        those that have come leave again, with the last of the requests that they have got meanwhile."""
        scenario = self._devices.cluster.scenario
        with malformed():
            members = scenario.members_of(text, "`device`")
        wanted = [DeviceSpec.of(scenario, member) for member in members]
        check_names(wanted, text)
        added = list[Node]()
        try:
            for spec in wanted:
                added.append(await self._devices.add(spec, self._injector.reach))
        except BaseException:
            # Who is told of an error, or tells us to stop, asks again for all of them.
            for node in added:
                with contextlib.suppress(RefusedAction):  # if it is lost, or alone, by now
                    self._devices.drain(node.index)
            raise
        return {"devices": [self._device(node) for node in added]}

    async def drain_device(self, index: int) -> dict[str, Any]:
        """Send a device nothing more; it leaves with its last request."""
        return self._device(self._devices.drain(index))

    def list_faults(self) -> dict[str, Any]:
        """Return the present and the coming faults."""
        return {"faults": [self._fault(injected) for injected in self._injector.faults.values()]}

    async def inject_fault(self, text: str) -> dict[str, Any]:
        """Add a fault, written as an entry of a scenario's `faults`, with times counted from now; return it."""
        with malformed():
            fault = parse_fault(text, "`fault`")
        there = [node for node in self._devices.present if fault.device in (None, node.index)]
        check_possible(fault, {node.spec for node in there}, text)
        return self._fault(await self._injector.inject(fault))

    async def clear_fault(self, id: int) -> dict[str, Any]:
        """End a fault; return it."""
        return self._fault(await self._injector.clear(id))

    def _fault(self, injected: InjectedFault) -> dict[str, Any]:
        there = self._injector.active.of(injected.id)
        return {"id": injected.id, "fault": str(injected.fault), "active_on": sorted(set(there.values()))}

    def _device(self, node: Node) -> dict[str, Any]:
        return {
            "index": node.index,
            "system": node.spec.system,
            "hardware": node.spec.hardware,
            "draft": node.spec.draft or "none",
            "state": str(node.state),
            "requests_in_flight": self._devices.in_flight(node.index),
            "kv_capacity_tokens": node.device_limits.kv_capacity_tokens,
            "faults": [] if node.state is State.GONE else list(map(str, self._injector.active.on(node.index))),
        }


def check_names(wanted: list[DeviceSpec], text: str) -> None:
    """Raise `MalformedAction` if a device names a system, hardware, model or draft that does not exist."""
    for spec in set(wanted):
        with malformed(f"`device` is {text!r}: "):
            spec.load()


def check_possible(fault: Fault, devices: Iterable[DeviceSpec], text: str) -> None:
    """Raise `MalformedAction` if a device has not what a fault is of, or would be left in no valid condition, whatever
    else is broken."""
    for spec in devices:
        with malformed(f"`fault` is {text!r}: "):
            spec.suffering(fault).load()


@contextlib.contextmanager
def malformed(where: str = "") -> Iterator[None]:
    """Raise `MalformedAction`, which begins with `where`, for what this context finds wrong with an operator's text."""
    try:
        yield
    except (DeviceError, UsageError) as error:
        raise MalformedAction(f"{where}{error}") from error
