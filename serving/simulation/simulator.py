"""Simulate a scenario in virtual time: devices, schedulers, router, slow tiers and faults, in one process.

    outcomes, records = Simulator(Scenario(devices=2)).serve(requests)

Engine, schedulers, policies, prices, router, faults and admission are the code of a server. There are no clients,
actors or texts: requests have as many tokens as they may have.
"""

import heapq
import logging
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from device_model.specs.spec import DeviceError
from serving.admission.forecast_feed import ForecastFeed
from serving.admission.rules import AdmissionRules
from serving.device.device_spec import DeviceLimits, DeviceSpec
from serving.device.fleet_limits import check_faults, context_held, limits_in_condition, load_fleet
from serving.device.scheduler_config import limits_of, rules_of
from serving.device.slow_tier import SlowTier
from serving.observer import Observer
from serving.policies.router import Router
from serving.policies.routing import RoutingPolicy
from serving.policies.step_options import StepOptions
from serving.scenario.active_faults import ActiveFaults, Effect, FaultAction, tier_of
from serving.scenario.faults import Fault, FaultEvent
from serving.scenario.scenario import Scenario
from serving.security.api_keys import api_keys
from serving.simulation.fault_timeline import FaultTimeline
from serving.simulation.node import NOWHERE, Outcome, VirtualBroadcast, VirtualDevice, VirtualNode, VirtualObserver
from serving.simulation.recorded_texts import recorded
from serving.simulation.virtual_admission import VirtualAdmission
from serving.simulation.virtual_driver import ARRIVES, Due
from serving.types import NEVER, Request, StepRecord
from serving.usage_error import UsageError

log = logging.getLogger("foreserve")


@dataclass(slots=True)
class TierShare:
    """A slow tier as a degraded device sees it: a `share` of what the tier grants."""

    tier: SlowTier
    share: float = 1.0

    def lease(self, device: int, traffic_bytes: float, elapsed_s: float) -> float:
        """Return the throttled bandwidth of a lease, in bytes/s. In `elapsed_s` a throttled device could draw no more
        than in that share of it at the full grant: who always draws has a duty of 1."""
        return self.tier.lease(device, traffic_bytes, elapsed_s * self.share) * self.share

    def granted_bytes_per_s(self, device: int) -> float:
        """Return the throttled bandwidth granted last, in bytes/s."""
        return self.tier.granted_bytes_per_s(device) * self.share

    def release(self, device: int) -> None:
        """End the device's lease."""
        self.tier.release(device)


class DeviceDue(NamedTuple):
    """The next due of a device, for the heap of all devices: of those with equal dues, the first device comes first."""

    due: Due
    device: int


class RequestEnd(NamedTuple):
    """A request that has ended, and the emulated instant of its end."""

    at_s: float
    request: Request


class EndQueue(VirtualObserver):
    """The requests that have ended, each with its instant, until they are taken; the router forgets them at once."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self.queue: deque[RequestEnd] = deque()

    def on_finish(self, flight: Outcome) -> None:
        self._router.done([(flight.device, flight.request)])
        self.queue.append(RequestEnd(flight.last_s, flight.request))


class Simulator:
    """The devices of a scenario, beginning at emulated instant 0."""

    def __init__(
        self,
        scenario: Scenario,
        leaps: bool = True,
        observer: VirtualObserver | None = None,
        forecasts: bool = False,
        policy: RoutingPolicy | None = None,
    ) -> None:
        """With `leaps`, make equal steps at once. An `observer` hears of steps and requests, which are then not kept.
        With `forecasts`, refuse a request whose first token would come later than its class promises; steps are then
        made one by one, since each improves the forecast. A `policy` takes the place of the scenario's router.

        Raise DeviceError or UsageError.
        """
        self._scenario, self._keep, self._leaps = scenario, observer is None, leaps and not forecasts
        self._fleet = fleet = load_fleet(scenario)
        self._router = Router(policy or scenario.router_spec.policy())
        self._context = context_held(scenario, fleet)
        rules = AdmissionRules.of(scenario, self._context, forecasts)
        self._admission, self._ends = VirtualAdmission(rules), EndQueue(self._router)
        self._keys = frozenset(api_keys(scenario))
        observers: list[Observer[Outcome, VirtualDevice]] = [self._ends, self._admission, *filter(None, [observer])]
        if forecasts:
            observers.append(ForecastFeed(rules.forecast, scenario, lambda: self._now_s))
        self._observer = VirtualBroadcast(observers)
        # The instant of the last arrival or fault.
        self._now_s = 0.0
        check_faults(scenario, [spec for spec, _ in fleet], self._context)
        rates = [device_limits.ext_bytes_per_s for _, device_limits in fleet]
        tiers = [SlowTier(rate) for rate in rates[:: scenario.shared_ext]]
        self._tiers = [TierShare(tiers[index // scenario.shared_ext]) for index in range(len(fleet))]
        self._step_options: dict[DeviceSpec, StepOptions] = {}
        self.nodes = [self._join(index, *member) for index, member in enumerate(fleet)]
        # What each device does next, with what it no longer will.
        self._coming: list[DeviceDue] = []
        self._timeline = FaultTimeline(scenario, len(fleet))
        self._active = ActiveFaults(self._on_tier)
        self._lost: set[int] = set()

    def serve(self, requests: Iterable[Request]) -> tuple[list[Outcome], list[StepRecord]]:
        """Serve requests, ordered by arrival; return their outcomes in that order, and all steps by device."""
        outcomes = []
        for request in requests:
            self._advance(request.arrival_s)
            outcomes.append(self.submit(request))
        self._advance(NEVER)
        return outcomes, [record for node in self.nodes for record in node.records]

    def submit(self, request: Request) -> Outcome:
        """Submit a request at its arrival, which devices have come to; return its outcome."""
        self._now_s, key = request.arrival_s, request.key
        if key and key not in self._keys:
            # As on a server: without keys it knows all clients as one.
            request = msgspec.structs.replace(request, key="")
        if refusal := self._admission.refusal(request, request.arrival_s):
            refused = Outcome(request, NOWHERE, [], refused=refusal.reason, key=key)
            self._observer.on_refusal(refusal, refused)
            return refused
        node = self.nodes[self._router.choose(request)]
        due, outcome = node.due, node.submit(request, key)
        if node.due != due:
            self._await(node)
        return outcome

    def next_end(self, until_s: float) -> RequestEnd | None:
        """Run until a request ends, or up to arrivals at `until_s`. Return that end; None if none came."""
        while not self._ends.queue:
            if not self._proceed(until_s):
                return None
        return self._ends.queue.popleft()

    def _join(self, index: int, spec: DeviceSpec, device_limits: DeviceLimits) -> VirtualNode:
        """Add an empty device, now."""
        limits, rules = limits_of(self._scenario, device_limits), rules_of(self._scenario, device_limits)
        pricer, tier = spec.pricer(self._load(spec), recorded), self._tiers[index]
        node = VirtualNode(index, pricer, tier, limits, rules, self._leaps, self._observer, self._keep)
        node.engine.lease_s = spec.lease_s
        tier.share = spec.condition.ext_share
        self._router.add(index, device_limits.token_s)
        self._observer.on_change(VirtualDevice(index, spec, device_limits, True, self._now_s))
        return node

    def _load(self, spec: DeviceSpec) -> StepOptions:
        """Load a device's step options, once for all equal devices: they cache prices and keep no other state."""
        if spec not in self._step_options:
            self._step_options[spec] = spec.load()
        return self._step_options[spec]

    def _advance(self, until_s: float) -> None:
        """Run all that happens before requests arrive at `until_s`."""
        while self._proceed(until_s):
            pass
        self._ends.queue.clear()

    def _proceed(self, until_s: float) -> bool:
        """Run the next event before arrivals at `until_s`; return whether there was one."""
        coming = self._coming
        while coming and coming[0].due != self.nodes[coming[0].device].due:
            heapq.heappop(coming)  # it was put off, or is done
        event_s = self._timeline.next_s
        first = Due(min(event_s, until_s), ARRIVES)
        if coming and coming[0].due < first:
            node = self.nodes[heapq.heappop(coming).device]
            node.proceed()
            self._await(node)
        elif event_s <= until_s and event_s < NEVER and (coming or until_s < NEVER):
            # What breaks at random never ends: that goes on for as long as there is anything to do.
            self._happen(*self._timeline.take())
        else:
            return False
        return True

    def _await(self, node: VirtualNode) -> None:
        """Enter a device's next event in the heap."""
        if node.due.at_s < NEVER:
            heapq.heappush(self._coming, DeviceDue(node.due, node.index))

    def _on_tier(self, device: int) -> Collection[int]:
        """Return the devices on the slow tier of a device; the last tier may have fewer than may share it."""
        return [index for index in tier_of(device, self._scenario.shared_ext) if index < len(self._fleet)]

    def _happen(self, id: int, fault: Fault, event: FaultEvent) -> None:
        """Carry out what an event of a fault does."""
        self._now_s = event.at_s
        lost, last = event.device in self._lost, not self._router.others_open(event.device)
        effect = self._active.happen(id, fault, event, lost, last)
        if effect is None:
            return
        if event.begins and effect.act is FaultAction.CHANGE and (why := self._refused(effect)):
            # As on a server.
            log.error("The fault %r could not come: %s", str(fault), why)
            self._active.end(id, event.number)
            return
        for index in effect.devices:
            self._carry_out(effect.act, index, event.at_s)

    def _refused(self, effect: Effect) -> str:
        """Return why the devices of an effect cannot be in the condition in which all active faults leave them; "" if
        they can."""
        try:
            for index in effect.devices:
                spec = self._fleet[index][0].in_condition(self._active.condition(index))
                limits_in_condition(spec, self._load(spec), self._context)
        except (DeviceError, UsageError) as error:
            return str(error)
        return ""

    def _carry_out(self, act: FaultAction, index: int, at_s: float) -> None:
        match act:
            case FaultAction.LOSE:
                self._lose(index, at_s)
            case FaultAction.REVIVE:
                self._revive(index, at_s)
            case FaultAction.STALL:
                self.nodes[index].stall(at_s, self._active.stalled_until_s(index))
                self._await(self.nodes[index])
            case FaultAction.CHANGE:
                self._degrade(index, at_s)

    def _degrade(self, index: int, at_s: float) -> None:
        """Put a device that is present into the condition that its faults leave it in."""
        if index in self._lost:
            return
        spec = self._fleet[index][0].in_condition(self._active.condition(index))
        device_limits = spec.device_limits(self._load(spec))
        limits = limits_of(self._scenario, device_limits)
        self._tiers[index].share = spec.condition.ext_share
        node = self.nodes[index]
        node.degrade(at_s, spec.repriced(node.engine.pricer, self._load(spec), recorded), limits)
        self._await(node)
        self._router.set_speed(index, device_limits.token_s)
        self._observer.on_change(VirtualDevice(index, spec, device_limits, True, at_s))

    def _lose(self, index: int, at_s: float) -> None:
        """Lose a device, and resume its requests elsewhere."""
        self._lost.add(index)
        self._router.close(index)
        self._observer.on_change(VirtualDevice(index, *self._fleet[index], False, at_s))
        for outcome in self.nodes[index].lose(at_s):
            self._router.done([(index, outcome.request)])
            node = self.nodes[self._router.choose(outcome.request)]
            node.resume(outcome, at_s)
            self._await(node)

    def _revive(self, index: int, at_s: float) -> None:
        """Return a lost device, empty."""
        self._lost.remove(index)
        spec = self._fleet[index][0].in_condition(self._active.condition(index))
        gone = self.nodes[index]
        self.nodes[index] = self._join(index, spec, spec.device_limits(self._load(spec)))
        self.nodes[index].begin_again(gone, at_s)
