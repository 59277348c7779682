"""The devices of a running emulation: they join, drain, are lost and come back, and their requests move."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from device_model.condition import Condition
from device_model.specs.spec import DeviceError
from serving.cluster.cluster import Cluster
from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.node import Node, State
from serving.cluster.observer import LiveFlights
from serving.cluster.recovery import GONE, START_S, Recovery
from serving.cluster.sources.token_sources import TokenSources
from serving.cluster.streams.sockets import Address
from serving.cluster.supervision.deaths import summary
from serving.device.device_spec import DeviceLimits, DeviceSpec, check_shared
from serving.device.fleet_limits import check_context
from serving.policies.router import Router
from serving.process.logs import fields
from serving.scenario.active_faults import tier_of
from serving.scenario.fleet import FleetError
from serving.scenario.refused_action import RefusedAction, UnknownTarget
from serving.usage_error import UsageError

log = logging.getLogger("foreserve")


class Devices:
    """The nodes of an emulation, by index."""

    def __init__(
        self, cluster: Cluster, router: Router, live: LiveFlights, sources: TokenSources, buffers: DeviceBuffers
    ) -> None:
        self.nodes, self._buffers = buffers.nodes, buffers
        self.cluster = cluster
        self._router = router
        self.observer, self.sources = live.observer, sources
        self.recovery = Recovery(cluster, router, live, sources, buffers, self.departed)
        self._loops: dict[int, asyncio.Task[None]] = {}
        self._paused_until_s = 0.0

    @property
    def addresses(self) -> dict[int, Address]:
        """The address of each device, for its tokens, by index."""
        return self._buffers.addresses

    async def start(self) -> None:
        """Connect the actors, and run the devices."""
        await asyncio.gather(*map(self.recovery.connect, self.nodes.values()))
        await self.sources.connect()
        self.sources.follow()
        for node in self.nodes.values():
            self._serve(node)

    async def warm_up(self) -> None:
        """Have each device's first tokens made before a client waits for them."""
        await asyncio.gather(*(self.recovery.warm_up(node) for node in self.nodes.values()))

    def stop(self) -> None:
        """Stop looking after the devices; their actors end with Ray."""
        loops, self._loops = self._loops, {}
        for loop in loops.values():
            loop.cancel()

    async def add(self, spec: DeviceSpec, starts: Callable[[int], Awaitable[None]]) -> Node:
        """Add a device, and return it once it takes requests; `starts(index)` is awaited before it is connected. Raise
        RefusedAction."""
        device_limits = await self._checked(spec)
        await self.cluster.hosts.look()
        index = max(self.nodes) + 1
        rates = [node.device_limits.ext_bytes_per_s for node in self.nodes.values()]
        try:
            check_shared([*rates, device_limits.ext_bytes_per_s], spec.sharers)
        except FleetError as error:
            raise RefusedAction(str(error)) from error
        node = self._start_node(index, spec, device_limits)
        await self._join(node, State.GONE, starts(index))
        return node

    def drain(self, index: int) -> Node:
        """Send a device no more requests: it ends with the last one that it has. Raise RefusedAction."""
        node = self.at(index)
        if node.state is not State.SERVING:
            raise RefusedAction(f"Device {index} is {node.state}: only one that is serving can be drained.")
        self._need_another(index, "drained")
        self._router.close(index)
        node.state = State.DRAINING
        self.observer.on_change(node)
        self.departed([index])
        return node

    def departed(self, devices: Iterable[int]) -> None:
        """End each of these devices that is draining and has no requests left."""
        for index in set(devices):
            node = self.nodes[index]
            if node.state is State.DRAINING and not self._router.in_flight(index):
                self._end(node, State.GONE)

    async def lose(self, index: int) -> None:
        """Lose a device with all that it holds; its requests go on elsewhere. One that drains is gone with them. Raise
        RefusedAction."""
        self.check_loss(index)
        node = self.nodes[index]
        self._router.close(index)
        self._end(node, State.GONE if node.state is State.DRAINING else State.LOST)
        await self.recovery.move_all(node)

    def check_loss(self, index: int) -> None:
        """Raise RefusedAction if a device cannot be lost now."""
        node = self.at(index)
        if not node.up:
            raise RefusedAction(f"Device {index} is {node.state}: only one that is up can be lost.")
        self._need_another(index, "lost")

    def is_last(self, index: int) -> bool:
        """Tell whether no other device takes requests."""
        return not self._router.others_open(index)

    async def revive(self, index: int) -> None:
        """Start a lost device again, with nothing in it."""
        await self.cluster.hosts.look()
        old = self.at(index)
        if old.state is State.LOST:
            node = self._start_node(index, old.spec, old.device_limits)
            await self._join(node, State.LOST)

    async def degrade(self, index: int, condition: Condition, at_s: float) -> None:
        """Put a device into another condition, from emulated instant `at_s` on. Raise RefusedAction, and change
        nothing, if it cannot be in it."""
        spec = self.at(index).spec.in_condition(condition)
        device_limits = await self._checked(spec)
        # By now another node may stand in its place.
        node = self.at(index)
        node.spec, node.device_limits = spec, device_limits
        if index in self._loops:
            # This includes a device that is being mended. One that starts is told, as the router is, once it serves.
            self._router.set_speed(index, node.device_limits.token_s)
            self._tell(node, at_s)
        self.observer.on_change(node)

    def _tell(self, node: Node, at_s: float = 0.0) -> None:
        """Tell a device and its scheduler the device's condition from emulated instant `at_s` on."""
        node.calls.emulate(node.spec, at_s)
        node.calls.limit(self.cluster.limits(node.device_limits))

    async def check(self, index: int, condition: Condition) -> None:
        """Raise RefusedAction if a device cannot be in a condition."""
        await self._checked(self.at(index).spec.in_condition(condition))

    def stall(self, index: int, until_s: float) -> None:
        """Have a device stand still until an emulated instant; a past instant lets it go on, unless all are paused."""
        node = self.at(index)
        node.stalled_until_s = until_s
        node.tell_stall()

    def pause(self, until_s: float) -> None:
        """Have all devices stand still until an emulated instant, those that come until then too; a past instant lets
        them go on, but for those that a fault stalls."""
        self._paused_until_s = until_s
        for node in self.nodes.values():
            node.paused_until_s = until_s
            node.tell_stall()
        for node in self.up:
            self.observer.on_change(node)

    def _start_node(self, index: int, spec: DeviceSpec, device_limits: DeviceLimits) -> Node:
        node = self.nodes[index] = self.cluster.start_node(index, spec, device_limits)
        node.paused_until_s = self._paused_until_s
        return node

    def in_flight(self, index: int) -> int:
        """Return the number of requests in flight on a device."""
        return self._router.in_flight(index)

    def forget_prompts(self, index: int) -> None:
        """Record that a device's prefix cache is empty."""
        self._router.forget(index)

    def tier(self, index: int) -> range:
        """Return the devices that are, were, or may come to be on the slow tier of a device, itself included."""
        return tier_of(index, self.nodes[index].spec.sharers)

    @property
    def kept(self) -> list[Node]:
        """Devices that are run, and mended if they die."""
        return [self.nodes[index] for index in self._loops]

    @property
    def watched(self) -> list[Node]:
        """Devices whose actors must live: those that are kept, and those that start."""
        return [*self.kept, *(node for node in self.nodes.values() if node.state is State.STARTING)]

    def at(self, index: int) -> Node:
        """Return the device with an index. Raise UnknownTarget if there is none, or it is gone."""
        node = self.nodes.get(index)
        if node is None or node.state is State.GONE:
            there = ", ".join(str(node.index) for node in self.present)
            raise UnknownTarget(f"There is no device {index}; those that there are: {there}.")
        return node

    @property
    def present(self) -> list[Node]:
        """Devices that are not gone."""
        return [node for node in self.nodes.values() if node.state is not State.GONE]

    @property
    def up(self) -> list[Node]:
        """Devices that have requests, or take them."""
        return [node for node in self.nodes.values() if node.up]

    async def _checked(self, spec: DeviceSpec) -> DeviceLimits:
        """Return a device's limits. Raise RefusedAction if it cannot be, or cannot hold the context promised to
        clients."""
        try:
            device_limits: DeviceLimits = await self.cluster.model.device_limits.remote(spec)
            check_context(device_limits, self.cluster.max_model_len)
        except (DeviceError, UsageError) as error:
            raise RefusedAction(str(getattr(error, "cause", error))) from error
        return device_limits

    def _need_another(self, index: int, done: str) -> None:
        if self.is_last(index):
            raise RefusedAction(f"Device {index} is the last one that serves: add another before it is {done}.")

    async def _join(self, node: Node, otherwise: State, first: Awaitable[None] | None = None) -> None:
        """Have a device that starts serve, once `first` is done. One that does not come up, or is not waited for any
        longer, is `otherwise` from then on. Raise RefusedAction if it fails by itself, or takes longer than
        `START_S`."""
        try:
            async with asyncio.timeout(START_S):
                if first is not None:
                    await first
                await self.recovery.connect(node)
            self.sources.tell_addresses()
            await self.recovery.warm_up(node)
        except BaseException as error:
            self._end(node, otherwise)
            if isinstance(error, TimeoutError):
                sentence = f"Device {node.index} did not come up within {START_S:.0f} s."
                raise RefusedAction(sentence) from error
            if isinstance(error, GONE):
                raise RefusedAction(f"Device {node.index} did not come up: {summary(error)}.") from error
            raise
        self._serve(node)

    def _serve(self, node: Node) -> None:
        node.state = State.SERVING
        # Its condition may have changed since it was connected.
        self._tell(node)
        self._router.add(node.index, node.device_limits.token_s)
        self._keep(node)
        self.observer.on_change(node)

    def _keep(self, node: Node, amiss: bool = False) -> None:
        loop = self._loops[node.index] = asyncio.create_task(self.recovery.keep(node, amiss))
        loop.add_done_callback(partial(self._keep_on, node))

    def _keep_on(self, node: Node, loop: asyncio.Task[None]) -> None:
        """Go on running a device whose loop has ended, but not by us: nobody else would see to it."""
        if self._loops.get(node.index) is loop:
            error = None if loop.cancelled() else loop.exception()
            log.error("Device %d was run no longer.", node.index, exc_info=error, extra=fields(device=node.index))
            self._keep(node, amiss=True)

    def _end(self, node: Node, state: State) -> None:
        node.state = state
        node.lose()
        if loop := self._loops.pop(node.index, None):
            loop.cancel()
        self.addresses.pop(node.index, None)
        if state is State.GONE:
            self._router.remove(node.index)
        self.cluster.end_node(node)
        others = [self.nodes[each] for each in self.tier(node.index) if each in self.nodes]
        # One that is lost and still being mended needs its tier.
        if all(other.state in (State.GONE, State.LOST) and other.index not in self._loops for other in others):
            self.cluster.end_tier(node)
        self.sources.tell_addresses()
        self.observer.on_change(node)
