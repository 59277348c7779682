"""Recovery of devices that die: they are connected anew, with their requests at the token that each client has."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection

from ray.exceptions import RayError

from serving.cluster.cluster import Cluster
from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.node import Node, State
from serving.cluster.observer import LiveFlights
from serving.cluster.sources.token_sources import TokenSources
from serving.cluster.supervision.deaths import cause_of_deaths, ended_from_outside, from_outside, given_up, summary
from serving.flight import Flight
from serving.policies.router import Router
from serving.process.background import BackgroundTasks
from serving.process.logs import fields

log = logging.getLogger("foreserve")

# Real seconds after which a device whose actors are not back is taken for lost.
PATIENCE_S = 8.0
# A device that is not even tried again within these real seconds is taken for lost at once.
LONG_WAIT_S = 2.0
# Real seconds that a device which has failed often must run before it has requests again.
PROBATION_S = 5.0
# Real seconds between two tries to connect a device; after an error that is not its end.
RETRY_S, AMISS_S = 0.1, 1.0
# By so many real seconds a timer of the event loop may be early.
EARLY_S = 0.01
WARM_UP_TOKENS = 16
# Errors that show that a device, or an actor that it needs, went down meanwhile.
GONE = (RayError, ConnectionError)
# Real seconds within which the actors of a device that starts must be up.
START_S = 120.0
# Real seconds of a warm-up at most: a source that died meanwhile makes no tokens for it.
WARM_UP_S = 20.0


class Recovery:
    """The connecting, running and mending of devices.

    A device that dies again with the same requests takes them up apart, until the request that is the cause is known.
    `live.refuse` gets that request, and a sentence for its client. `departed` hears of devices whose requests have gone
    on elsewhere: one that drains ends.
    """

    def __init__(
        self,
        cluster: Cluster,
        router: Router,
        live: LiveFlights,
        sources: TokenSources,
        buffers: DeviceBuffers,
        departed: Callable[[list[int]], None],
    ) -> None:
        self._cluster, self._router, self._sources = cluster, router, sources
        self._nodes, self._addresses = buffers.nodes, buffers.addresses
        self._flights, self._observer, self._refuse = live
        self._departed = departed
        # Requests that are being sent again, as tokens of theirs were lost.
        self._lacking: set[str] = set()
        # If one fails so, its device is mended, and then takes its requests up.
        self._tasks = BackgroundTasks(*GONE)

    async def connect(self, node: Node) -> None:
        """Connect the actors of a device that starts, once all of them are up, though something end them meanwhile.

        Raise RayError if one fails by itself, or is still ended after `START_S`.
        """
        deadline_s = time.monotonic() + START_S
        while True:
            try:
                return await self.connect_once(node)
            except GONE as error:
                lasting = isinstance(error, RayError) and not ended_from_outside(error)
                if lasting or time.monotonic() > deadline_s:
                    raise
                await asyncio.sleep(RETRY_S)

    async def connect_once(self, node: Node) -> None:
        """Connect a device's actors with each other, as if they had never had a request."""
        limits, rules = self._cluster.limits(node.device_limits), self._cluster.rules(node.device_limits)
        device, scheduler = await asyncio.gather(node.device.address.remote(), node.scheduler.address.remote())
        await node.scheduler.reset.remote(device, limits, rules)
        await node.device.connect.remote(
            node.spec, node.scheduler, self._cluster.model, node.tier, self._sources.addresses
        )
        self._addresses[node.index] = device
        node.calls.connect(device, scheduler)
        # Its condition may have changed while it was being connected.
        node.calls.emulate(node.spec)
        node.calls.limit(self._cluster.limits(node.device_limits))
        node.tell_stall()

    async def warm_up(self, node: Node) -> None:
        """Have tokens made that the device never releases: first calls and first steps are slow."""
        id = f"warm-up-{node.index}"
        # A device that goes down meanwhile is mended without it.
        with contextlib.ExitStack() as after, contextlib.suppress(TimeoutError, *GONE):
            after.callback(self._sources.drop, [id])
            after.callback(node.calls.drop, [id])
            async with asyncio.timeout(WARM_UP_S):
                await node.calls.open(id, 0)
                self._sources.warm_up(id, node.index, WARM_UP_TOKENS)
                while (held := (await node.device.held.remote()).get(id)) and len(held[1]) < WARM_UP_TOKENS:
                    await asyncio.sleep(0.01)

    async def keep(self, node: Node, amiss: bool = False) -> None:
        """Run a device, and mend it each time it dies, until this is cancelled; first of all, if something is `amiss`
        already."""
        if amiss:
            node.lose()
            await self._mend(node)
        while True:
            try:
                await node.device.run.remote()
            except RayError as error:
                node.lose()
                sentence = "Device %d stopped (%s); it goes on where it was."
                log.error(sentence, node.index, summary(error), extra=fields(device=node.index))
                self._observer.on_restart(f"device {node.index}")
                await self._mend(node, self._suspect(node, by_itself=not from_outside(error)))

    async def send(self, node: Node, flight: Flight) -> None:
        """Have a device serve a request, from the token that its client has on, unless it does already, or is down.

        Raise ConnectionError if the device goes down; it takes the request up when it is mended.
        """
        seen = node.link.state
        request = flight.resumed
        if seen is None or flight.sent_to == (node.index, seen) or not node.inquiry.allows(request.id):
            return
        sent_to = flight.sent_to = (node.index, seen)
        # Awaited, so that no token is there before its buffer is.
        await node.calls.open(request.id, request.released, flight.inbox)
        if self._flights.get(request.id) is flight and flight.sent_to is sent_to and node.link.state == seen:
            flight.opened = True
            node.calls.submit(request)
            # From where its buffer begins: its client may have had more meanwhile, and knows those tokens again.
            self._sources.resume(flight, request.released)
        elif node.link.state == seen and (request.id not in self._flights or flight.sent_to != sent_to):
            # It ended meanwhile, by what was on its way here, or goes on elsewhere.
            node.calls.drop([request.id])

    def send_again(self, node: Node, flights: list[Flight]) -> None:
        """Have a device serve requests anew, from the tokens that their clients have: some that it has sent since never
        came. Ignore those of which it is already told."""
        if lacking := [flight for flight in flights if flight.request.id not in self._lacking]:
            sentence = "Messages about %d requests of device %d got lost; it goes on from those that came."
            log.warning(sentence, len(lacking), node.index, extra=fields(device=node.index))
            self._lacking.update(flight.request.id for flight in lacking)
            self._tasks.start(self._send_again(node, lacking))

    async def _send_again(self, node: Node, flights: list[Flight]) -> None:
        ids = [flight.request.id for flight in flights]
        node.calls.drop(ids)
        for flight in flights:
            flight.sent_to = None
        try:
            await self._resume(node, flights)
        finally:
            self._lacking.difference_update(ids)

    async def move_all(self, node: Node) -> None:
        """Move all requests of a device to others, where they go on from the token that their clients have."""
        to, moved = dict[int, list[Flight]](), self._of(node)
        # One that works again would go on with them, and wait in vain for tokens that are sent elsewhere.
        node.calls.drop([flight.request.id for flight in moved])
        for flight in moved:
            self._router.done([(node.index, flight.request)])
            flight.move(self._router.choose(flight.request))
            self._observer.on_move(flight)
            # Its trial here is over: what becomes of it is seen elsewhere.
            node.inquiry.gone([flight.request.id])
            # A device that is being mended takes up all of its requests itself, these included.
            if self._nodes[flight.device].link.up:
                to.setdefault(flight.device, []).append(flight)
        self._observer.on_change(node)
        with contextlib.suppress(*GONE):  # A device that fails now is mended, and then takes them up.
            await asyncio.gather(*(self._resume(self._nodes[index], flights) for index, flights in to.items()))

    def passed(self, node: Node, request_ids: Collection[str]) -> None:
        """Record requests that a suspect device has served since it died."""
        node.inquiry.passed(request_ids)
        self._admit(node)

    def gone(self, node: Node, request_ids: Collection[str]) -> None:
        """Record requests that a suspect device has no more."""
        if node.inquiry.open:
            node.inquiry.gone(request_ids)
            self._admit(node)

    def _of(self, node: Node) -> list[Flight]:
        return [flight for flight in self._flights.values() if flight.device == node.index]

    def _suspect(self, node: Node, by_itself: bool) -> bool:
        """Ask which request a device's death is the fault of; tell whether it is that of some."""
        at_work = [flight.request.id for flight in reversed(self._of(node)) if node.inquiry.allows(flight.request.id)]
        culprit = node.inquiry.death(at_work, by_itself)
        if culprit is not None and culprit in self._flights:
            self._refuse(self._flights[culprit], cause_of_deaths("device"))
        return culprit is not None or node.inquiry.in_doubt

    async def _mend(self, node: Node, is_sought: bool = False) -> None:
        """Try until the device works; each `PATIENCE_S` in vain is a failure. `is_sought`: a request may be why."""
        given_up_at = time.monotonic() + PATIENCE_S
        wait_s = node.backoff.failed(time.monotonic(), is_sought)
        if is_late := wait_s > LONG_WAIT_S:
            await self._go_on_elsewhere(node)
        await asyncio.sleep(wait_s)
        while not await self._recovered(node, given_up_at - time.monotonic()):
            if (now_s := time.monotonic()) > given_up_at - EARLY_S:
                given_up_at, is_late = now_s + PATIENCE_S, True
                node.backoff.failed(now_s)
            if is_late or node.backoff.given_up:
                await self._go_on_elsewhere(node)
            await asyncio.sleep(RETRY_S)
        if node.backoff.given_up:
            await self._go_on_elsewhere(node)
        if node.state is State.LOST:
            self._tasks.start(self._reopen(node))

    async def _go_on_elsewhere(self, node: Node) -> None:
        """Have a device's requests served by the others, or refuse them, if there are none and it has failed often."""
        if node.up and self._router.others_open(node.index):
            sentence = "Device %d does not come back; its requests go on elsewhere."
            log.error(sentence, node.index, extra=fields(device=node.index))
            self._router.close(node.index)
            drains = node.state is State.DRAINING
            if not drains:
                node.state = State.LOST
                node.tier.release.remote(node.index)  # It draws nothing, and others would have the less.
            self._observer.on_change(node)
            await self.move_all(node)
            if drains:
                self._departed([node.index])
        elif node.backoff.given_up:
            for flight in self._of(node):
                self._refuse(flight, given_up(f"Device {node.index}"))

    async def _reopen(self, node: Node) -> None:
        """Let a device that was lost have requests again."""
        seen = node.link.state
        if node.backoff.given_up:
            await asyncio.sleep(PROBATION_S)
        if node.link.state == seen and node.state is State.LOST:
            node.state = State.SERVING
            self._router.open(node.index)
            self._observer.on_change(node)

    async def _recovered(self, node: Node, left_s: float) -> bool:
        """Try once; not for longer than the `left_s` real seconds after which requests go on elsewhere, if there are
        any left."""
        try:
            async with asyncio.timeout(left_s if left_s > 0 else PATIENCE_S):  # `wait_for` may miss a cancel
                await self._recover(node)
        except (*GONE, TimeoutError):
            return False
        except Exception:
            # Whatever it is (no more files to open): a device that nobody runs would keep its requests waiting.
            log.exception("Device %d could not be connected.", node.index, extra=fields(device=node.index))
            await asyncio.sleep(AMISS_S)
            return False
        return True

    async def _recover(self, node: Node) -> None:
        """Have a device and its scheduler, new or reset, take up their requests at the token that each client has."""
        node.lose()
        await self.connect_once(node)
        # Sent before the requests: calls come to one actor in order.
        self._sources.tell_addresses()
        node.link.up = True
        self._router.forget(node.index)
        node.inquiry.came_up()
        node.backoff.came_up(time.monotonic())
        await self._resume(node, self._of(node))
        # What it was told comes to it in order: now it has the requests, too.
        await node.calls.schedules(self._cluster.limits(node.device_limits))

    async def _resume(self, node: Node, flights: list[Flight]) -> None:
        await asyncio.gather(*(self.send(node, flight) for flight in flights))

    def _admit(self, node: Node) -> None:
        """Resume the requests of a device that had to wait, and may go on now."""
        if node.link.up and any(flight.sent_to != (node.index, node.link.state) for flight in self._of(node)):
            self._tasks.start(self._resume(node, self._of(node)))
