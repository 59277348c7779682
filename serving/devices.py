"""The devices of an emulation while it runs: they join, drain, are lost and come back, and their requests move."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable

from ray.exceptions import RayError

from device_model.condition import Condition
from device_model.spec import SpecError
from serving.cluster import Cluster, Node, State
from serving.emulated import Emulated, Figures, check_shared
from serving.fleet import FleetError
from serving.flight import Flight
from serving.observing.logs import fields
from serving.patience import RETRY_S, summary
from serving.router import Router

log = logging.getLogger("foreserve")

# A device whose actors are not back after so many real seconds is taken for lost.
PATIENCE_S = 8.0
WARM_UP_TOKENS = 16


class Refused(ValueError):
    """Something that cannot be done with a device as it is; the message is a sentence."""


class Unknown(Refused):
    """There is no such device, or fault."""


class Malformed(Refused):
    """A text that is not what it should be."""


class Devices:
    """Owns the nodes, by index. `flights` are all requests in flight, by id."""

    def __init__(self, cluster: Cluster, nodes: list[Node], router: Router, flights: dict[str, Flight]) -> None:
        self.nodes = {node.index: node for node in nodes}
        self.cluster = cluster
        self.addresses: dict[int, str] = {}
        self._router = router
        self._flights = flights
        self._loops: dict[int, asyncio.Task[None]] = {}
        self.on_restart: Callable[[str], None] = lambda actor: None
        self.on_fault: Callable[[int, str, bool], None] = lambda device, kind, begins: None
        self.on_change: Callable[[Node], None] = lambda node: None
        self.on_move: Callable[[Flight], None] = lambda flight: None

    async def start(self) -> None:
        """Connect the actors, and run them."""
        for node in self.nodes.values():
            await self._wire(node)
        await self.cluster.source.wire.remote(self.addresses)
        for node in self.nodes.values():
            self._serve(node)
        await asyncio.gather(*(self._warm_up(node) for node in self.nodes.values()))

    def stop(self) -> None:
        """Look after them no longer; the actors end with Ray."""
        for loop in self._loops.values():
            loop.cancel()

    async def add(self, emulated: Emulated) -> Node:
        """One more device, which takes requests as soon as this returns. Raises `Refused`."""
        figures = await self._checked(emulated)
        index = max(self.nodes) + 1
        rates = [node.figures.ext_bytes_per_s for node in self.nodes.values()]
        try:
            check_shared([*rates, figures.ext_bytes_per_s], emulated.sharers)
        except FleetError as error:
            raise Refused(str(error)) from error
        node = self.cluster.start_node(index, emulated, figures)
        self.nodes[node.index] = node
        await self._join(node)
        return node

    def drain(self, index: int) -> Node:
        """Send a device nothing more: it ends with the last of its requests. Raises `Refused`."""
        node = self.at(index)
        if node.state is not State.SERVING:
            raise Refused(f"Device {index} is {node.state}: only one that is serving can be drained.")
        self._need_another(index, "drained")
        self._router.close(index)
        node.state = State.DRAINING
        self.on_change(node)
        self.departed([index])
        return node

    def departed(self, devices: Iterable[int]) -> None:
        """Requests have left these devices: one that drains may be empty now."""
        for index in set(devices):
            node = self.nodes[index]
            if node.state is State.DRAINING and not self._router.in_flight(index):
                self._end(node, State.GONE)

    async def lose(self, index: int) -> None:
        """A device is gone, with all that it held; its requests go on elsewhere. Raises `Refused`."""
        self.check_loss(index)
        node = self.nodes[index]
        self._router.close(index)
        self._end(node, State.LOST)
        await self._move_all(node)

    def check_loss(self, index: int) -> None:
        """Raises `Refused` if a device can't be lost now."""
        node = self.at(index)
        if not node.up:
            raise Refused(f"Device {index} is {node.state}: only one that is up can be lost.")
        self._need_another(index, "lost")

    async def revive(self, index: int) -> None:
        """A device that was lost is there again, with nothing in it."""
        old = self.at(index)
        if old.state is State.LOST:
            node = self.nodes[index] = self.cluster.start_node(index, old.emulated, old.figures)
            await self._join(node)

    async def degrade(self, index: int, condition: Condition) -> None:
        """A device is in another condition from now on. Raises `Refused`, and changes nothing, if it can't be."""
        node = self.at(index)
        emulated = node.emulated.in_condition(condition)
        node.figures = await self._checked(emulated)
        node.emulated = emulated
        self._router.set_speed(index, node.figures.token_s)
        if node.up:
            node.device.emulate.remote(emulated)
            node.scheduler.limit.remote(self.cluster.limits(node.figures))
        self.on_change(node)

    async def check(self, index: int, condition: Condition) -> None:
        """Raises `Refused` if a device can't be in a condition."""
        await self._checked(self.at(index).emulated.in_condition(condition))

    def stall(self, index: int, until_s: float) -> None:
        """A device stands still until an emulated instant; one that is over has it go on."""
        if self.at(index).up:
            self.nodes[index].device.stall.remote(until_s)

    def in_flight(self, index: int) -> int:
        """Requests in flight on a device."""
        return self._router.in_flight(index) if self.nodes[index].state is not State.STARTING else 0

    def sharing(self, index: int) -> list[int]:
        """The devices on the LPDDR tier of a device, itself included."""
        sharers = self.nodes[index].emulated.sharers
        return [node.index for node in self.present if node.index // sharers == index // sharers]

    def at(self, index: int) -> Node:
        """The device with an index, if there is one that is not gone. Raises `Unknown`."""
        node = self.nodes.get(index)
        if node is None or node.state is State.GONE:
            there = ", ".join(str(node.index) for node in self.present)
            raise Unknown(f"There is no device {index}; those that there are: {there}.")
        return node

    @property
    def present(self) -> list[Node]:
        """All devices that are not gone."""
        return [node for node in self.nodes.values() if node.state is not State.GONE]

    @property
    def up(self) -> list[Node]:
        """The devices that have, or take, requests."""
        return [node for node in self.nodes.values() if node.up]

    async def _checked(self, emulated: Emulated) -> Figures:
        """What a device would be like, if it can be and can hold what clients were promised."""
        try:
            figures: Figures = await self.cluster.model.figures.remote(emulated)
        except SpecError as error:
            raise Refused(str(getattr(error, "cause", error))) from error
        context = self.cluster.max_model_len
        if min(figures.kv_capacity_tokens, figures.max_context_tokens) < context:
            held = min(figures.kv_capacity_tokens, figures.max_context_tokens)
            raise Refused(f"Such a device holds {held} tokens of context, and clients were promised {context}.")
        return figures

    def _need_another(self, index: int, done: str) -> None:
        if not self._router.others_open(index):
            raise Refused(f"Device {index} is the last one that serves: add another before it is {done}.")

    async def _join(self, node: Node) -> None:
        await self._wire(node)
        await self.cluster.source.wire.remote(self.addresses)
        await self._warm_up(node)
        self._serve(node)

    def _serve(self, node: Node) -> None:
        node.state = State.SERVING
        self._router.add(node.index, node.figures.token_s)
        self._loops[node.index] = asyncio.create_task(self._keep(node))
        self.on_change(node)

    async def _wire(self, node: Node) -> None:
        await node.device.emulate.remote(node.emulated)
        await node.scheduler.reset.remote(
            node.device, self.cluster.limits(node.figures), self.cluster.rules(node.figures)
        )
        self.addresses[node.index] = await node.device.wire.remote(
            node.scheduler, self.cluster.model, node.tier, self.cluster.source, self.cluster.scenario.token_ahead
        )

    async def _warm_up(self, node: Node) -> None:
        """Have tokens made for a device that it never releases: first calls and first steps take their time."""
        id = f"warm-up-{node.index}"
        await node.device.open.remote(id, 0)
        self.cluster.source.warm_up.remote(id, node.index, WARM_UP_TOKENS)
        while len((await node.device.held.remote())[id][1]) < WARM_UP_TOKENS:
            await asyncio.sleep(0.01)
        node.device.close.remote([id])
        self.cluster.source.drop.remote([id])

    async def _keep(self, node: Node) -> None:
        """Run a device, and mend what dies of it, for as long as it is there."""
        while True:
            try:
                await node.device.run.remote()
            except RayError as error:
                node.link.lose()
                sentence = "Device %d stopped (%s); it goes on where it was."
                log.error(sentence, node.index, summary(error), extra=fields(device=node.index))
                self.on_restart(f"device {node.index}")
                await self._mend(node)

    async def _mend(self, node: Node) -> None:
        """Try until it works; meanwhile, if that takes too long and there are others, its requests go on there."""
        given_up_at = time.monotonic() + PATIENCE_S
        while not await self._recovered(node):
            await asyncio.sleep(RETRY_S)
            if node.up and time.monotonic() > given_up_at and self._router.others_open(node.index):
                sentence = "Device %d does not come back; its requests go on elsewhere."
                log.error(sentence, node.index, extra=fields(device=node.index))
                self._router.close(node.index)
                node.state = State.LOST
                self.on_change(node)
                await self._move_all(node)
        if node.state is State.LOST:
            node.state = State.SERVING
            self._router.open(node.index)
            self.on_change(node)

    async def _recovered(self, node: Node) -> bool:
        try:
            await asyncio.wait_for(self._recover(node), PATIENCE_S)
        except (RayError, TimeoutError):
            return False
        return True

    async def _recover(self, node: Node) -> None:
        """A device and a scheduler, fresh or reset, take up their requests at the token each client has."""
        node.link.lose()
        await self._wire(node)
        # Sent before what follows, and to one actor calls come in order.
        self.cluster.source.wire.remote(self.addresses)
        node.link.up = True
        await self._resume(node, [flight for flight in self._flights.values() if flight.device == node.index])

    async def _resume(self, node: Node, flights: list[Flight]) -> None:
        resumed = [flight.resumed for flight in flights]
        # Awaited, so that no token is there before its buffer is.
        await asyncio.gather(*(node.device.open.remote(request.id, request.released) for request in resumed))
        for request in resumed:
            flight = self._flights.get(request.id)
            if flight is not None and flight.device == node.index:
                node.scheduler.submit.remote(request)
                self.cluster.source.resend.remote(request.id, request.released, node.index)

    async def _move_all(self, node: Node) -> None:
        """All requests of a device go on elsewhere, from the token that their clients have."""
        to: dict[int, list[Flight]] = {}
        for flight in [flight for flight in self._flights.values() if flight.device == node.index]:
            self._router.done([(node.index, flight.request)])
            flight.move(self._router.choose(flight.request))
            self.on_move(flight)
            # One that is being mended takes up all of its requests itself, these included.
            if self.nodes[flight.device].link.up:
                to.setdefault(flight.device, []).append(flight)
        self.on_change(node)
        with contextlib.suppress(RayError):  # One that fails now is mended, and then takes them up.
            await asyncio.gather(*(self._resume(self.nodes[index], flights) for index, flights in to.items()))

    def _end(self, node: Node, state: State) -> None:
        node.state = state
        node.link.lose()
        if loop := self._loops.pop(node.index, None):
            loop.cancel()
        self.addresses.pop(node.index, None)
        self.cluster.end_node(node)
        self.cluster.source.wire.remote(self.addresses)
        self.on_change(node)
