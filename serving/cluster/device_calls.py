"""The edge's calls of a device and its scheduler while both are up."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, cast

import msgspec

from serving.device.device_spec import DeviceSpec
from serving.scheduler.config import Limits
from serving.types import Request

# Code that only looks at a device's node needs no Ray.
if TYPE_CHECKING:
    from serving.cluster.streams.async_rpc import AsyncRpcClient
    from serving.cluster.streams.sockets import Address

# Real seconds after which a device that has not said that it expects a request's tokens is told again.
OPEN_S = 2.0


class DeviceCalls:
    """Connections to the present processes of a device and its scheduler; calls without a connection are dropped."""

    def __init__(self) -> None:
        self._device: AsyncRpcClient | None = None
        self._scheduler: AsyncRpcClient | None = None

    def connect(self, device: "Address", scheduler: "Address") -> None:
        """Connect to these addresses, on the running loop."""
        from serving.cluster.streams.async_rpc import AsyncRpcClient

        self.close()
        self._device, self._scheduler = AsyncRpcClient(device), AsyncRpcClient(scheduler)

    def close(self) -> None:
        """Disconnect; calls that wait for an answer raise ConnectionError."""
        for client in (self._device, self._scheduler):
            if client is not None:
                client.close()
        self._device = self._scheduler = None

    async def open(self, request_id: str, position: int, inbox: tuple[Any, ...] | None = None) -> None:
        """Have the device expect tokens of a request, from `position` of its output on; return when it does. `inbox`:
        its edge's, if that has one. The device is told again if the call, or its answer, is lost.

        Raise ConnectionError if it never will.
        """
        # Another one that takes its place is told anew by whoever connects it.
        device = connected(self._device, "device")
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(OPEN_S):
                    # Told twice it expects the same: until this returns, nobody is told to send it tokens.
                    await device.call("open", request_id, position, inbox)
                return

    def ask_unknown(self, request_ids: list[str]) -> None:
        """Ask for those of some requests that the device has no buffer for; a release tells of them (`unknown`)."""
        if self._device is not None:
            self._device.tell("tell_unknown", request_ids)

    async def awaited(self) -> dict[str, int]:
        """Return the requests that the device owes tokens which have not come from their source, each with the position
        of the first one in its output. Raise ConnectionError if it is not there."""
        return cast(dict[str, int], msgspec.msgpack.decode(await self._ask("awaited")))

    async def unscheduled(self, request_ids: list[str]) -> list[str]:
        """Return those of some requests of which the scheduler does not know, though the device expects their tokens:
        nobody computes them. Raise ConnectionError if either is not there."""
        scheduler = connected(self._scheduler, "scheduler")
        missing = msgspec.msgpack.decode(await scheduler.call("unknown", request_ids))
        # In this order: of one that the scheduler has done with, the device has no buffer by now, or owes some tokens.
        return cast(list[str], msgspec.msgpack.decode(await self._ask("unowed", missing))) if missing else []

    def submit(self, request: Request) -> None:
        """Submit a request to the scheduler."""
        if self._scheduler is not None:
            self._scheduler.tell("submit", request)

    async def schedules(self, limits: Limits) -> None:
        """Set the limits of the scheduler, and wait until it has them, and all that it was told before.

        Raise ConnectionError if it never will.
        """
        await connected(self._scheduler, "scheduler").call("limit", limits)

    def remember(self, request: Request) -> None:
        """Have the scheduler find an ended request's answer again: its `blocks` are those of its prompt and answer."""
        if self._scheduler is not None:
            self._scheduler.tell("remember", request)

    def drop(self, request_ids: list[str]) -> None:
        """Drop requests, on device and scheduler; ignore unknown ones."""
        if self._device is not None and self._scheduler is not None:
            self._scheduler.tell("abort", request_ids)
            self._device.tell("close", request_ids)

    def emulate(self, spec: DeviceSpec, at_s: float = 0.0) -> None:
        """Have the device emulate another spec from an emulated instant on; by default, in all of the step at hand."""
        if self._device is not None:
            self._device.tell("emulate", spec, at_s)

    def stall(self, until_s: float) -> None:
        """Have the device stand still until an emulated instant."""
        if self._device is not None:
            self._device.tell("stall", until_s)

    def limit(self, limits: Limits) -> None:
        """Set the limits of the scheduler."""
        if self._scheduler is not None:
            self._scheduler.tell("limit", limits)

    async def _ask(self, method: str, *arguments: Any) -> bytes:
        """Return the device's answer. Raise ConnectionError if it is not there."""
        return await connected(self._device, "device").call(method, *arguments)


def connected(client: "AsyncRpcClient | None", name: str) -> "AsyncRpcClient":
    """Return the connection to what is called `name`. Raise ConnectionError if there is none."""
    if client is None:
        raise ConnectionResetError(f"the {name} is not connected")
    return client
