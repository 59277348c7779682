"""A scenario in virtual time: its devices and their schedulers, the router, LPDDR tiers and faults, in one process.

    outcomes, records = Simulated(Scenario(devices=2)).serve(requests)

Engine, schedulers, policies, prices, router and faults are those of a server. There are no clients, actors or texts:
requests have as many tokens as they may have, and nobody is turned away.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from serving.bringup import check_faults, load_fleet
from serving.emulated import Emulated, Figures
from serving.faults import LOST, LPDDR, STALL, Event, Fault, condition_of, events, parse_fault
from serving.flow import NEVER, Request, StepRecord
from serving.lpddr import LEASE_S, Lpddr
from serving.policies.routing import make_policy
from serving.router import Router
from serving.scenario import Scenario, ScenarioError
from serving.scheduling import limits_of, rules_of
from serving.virtual import ARRIVES, Listener, Outcome, VirtualNode
from serving.ways import Ways


@dataclass(slots=True)
class Throttled:
    """An LPDDR tier as one device sees it, which can draw the share `left` of what it is granted."""

    tier: Lpddr
    left: float = 1.0

    def lease(self, device: int, traffic_bytes: float, elapsed_s: float) -> float:
        """As of `Lpddr`."""
        return self.tier.lease(device, traffic_bytes, elapsed_s) * self.left

    def release(self, device: int, traffic_bytes: float) -> None:
        """As of `Lpddr`."""
        self.tier.release(device, traffic_bytes)


class Simulated:
    """The devices of a scenario, at emulated instant 0."""

    def __init__(self, scenario: Scenario, leaps: bool = True, listener: Listener | None = None) -> None:
        """With `leaps` equal steps are made at once. A `listener` hears of steps and requests, which then are not kept.
        Raises SpecError, FleetError, TermError or ScenarioError."""
        self._scenario, self._listener = scenario, listener
        self._router = Router(make_policy(scenario.router))
        fleet = load_fleet(scenario)
        check_faults(scenario, [emulated for emulated, _ in fleet])
        self._emulated = [emulated for emulated, _ in fleet]
        self._tiers: list[Throttled] = []
        self._ways: dict[Emulated, Ways] = {}
        self.nodes = [self._node(index, *member, leaps) for index, member in enumerate(fleet)]
        # What each device does next, with what it no longer will.
        self._coming: list[tuple[float, int, int]] = []
        self._ended: deque[tuple[float, Request]] = deque()
        self._faults = [parse_fault(text, "An entry of `faults`") for text in scenario.faults]
        self._active: dict[tuple[int, int], tuple[Fault, int]] = {}
        self._breaking = self._events()
        self._next = next(self._breaking, None)

    def serve(self, requests: Iterable[Request]) -> tuple[list[Outcome], list[StepRecord]]:
        """Serve requests, ordered by arrival; what became of each, in their order, and all steps by device."""
        outcomes = []
        for request in requests:
            self._advance(request.arrival_s)
            outcomes.append(self.submit(request))
        self._advance(NEVER)
        return outcomes, [record for node in self.nodes for record in node.records]

    def submit(self, request: Request) -> Outcome:
        """A request arrives, now; what becomes of it."""
        node = self.nodes[self._router.choose(request)]
        due, outcome = node.due, node.submit(request)
        if node.due != due:
            self._await(node)
        return outcome

    def next_end(self, until_s: float) -> tuple[float, Request] | None:
        """Go on until a request ends, and no later than requests arrive at an instant; which, and when. None if none
        ends by then."""
        while not self._ended:
            if not self._proceed(until_s):
                return None
        return self._ended.popleft()

    def _node(self, index: int, emulated: Emulated, figures: Figures, leaps: bool) -> VirtualNode:
        shared = emulated.sharers > 1
        first = index - index % emulated.sharers
        self._tiers.append(Throttled(Lpddr(figures.ext_bytes_per_s) if first == index else self._tiers[first].tier))
        limits, rules = limits_of(self._scenario, figures), rules_of(self._scenario, figures)
        pricer = emulated.pricer(self._load(emulated))
        node = VirtualNode(index, pricer, self._tiers[index], limits, rules, leaps, self._listener)
        node.engine.lease_s = LEASE_S if shared else NEVER
        node.on_end = partial(self._end, index)
        self._router.add(index, figures.token_s)
        return node

    def _load(self, emulated: Emulated) -> Ways:
        """What prices its steps: one for all devices that are alike, as it remembers nothing but its answers."""
        if emulated not in self._ways:
            self._ways[emulated] = emulated.load()
        return self._ways[emulated]

    def _advance(self, until_s: float) -> None:
        """Have all happen that does before requests arrive at an instant."""
        while self._proceed(until_s):
            pass
        self._ended.clear()

    def _proceed(self, until_s: float) -> bool:
        """Have the next thing happen, if it does before requests arrive at an instant; whether it did."""
        coming = self._coming
        while coming and coming[0][:2] != self.nodes[coming[0][2]].due:
            heapq.heappop(coming)  # it was put off, or is done
        event_s = self._next[1].at_s if self._next is not None else NEVER
        first = (min(event_s, until_s), ARRIVES)
        if coming and coming[0][:2] < first:
            node = self.nodes[heapq.heappop(coming)[2]]
            node.proceed()
            self._await(node)
        elif self._next is not None and event_s <= until_s and (coming or until_s < NEVER):
            # What breaks at random never ends: that goes on for as long as there is anything to do.
            self._happen(*self._next)
            self._next = next(self._breaking, None)
        else:
            return False
        return True

    def _await(self, node: VirtualNode) -> None:
        """What a device does next is to happen in its turn."""
        if node.due[0] < NEVER:
            heapq.heappush(self._coming, (*node.due, node.index))

    def _end(self, index: int, at_s: float, request: Request) -> None:
        self._router.done([(index, request)])
        self._ended.append((at_s, request))

    def _events(self) -> Iterator[tuple[int, Event]]:
        """All that breaks, in order of time, with the number of its fault."""
        every = range(len(self.nodes))
        if any(fault.kind == LOST for fault in self._faults):
            raise ScenarioError("An entry of `faults` has a device lost: virtual time knows no lost devices.")
        streams = [self._of_fault(number, fault, every) for number, fault in enumerate(self._faults)]
        return heapq.merge(*streams, key=lambda each: (each[1].at_s, each[1].begins, each[0]))

    def _of_fault(self, number: int, fault: Fault, every: Iterable[int]) -> Iterator[tuple[int, Event]]:
        return ((number, event) for event in events(fault, every, self._scenario.seed + number))

    def _happen(self, number: int, event: Event) -> None:
        fault, key = self._faults[number], (number, event.number)
        if event.begins:
            self._active[key] = fault, event.device
        else:
            self._active.pop(key, None)
        if fault.kind == STALL:
            if event.begins:
                node = self.nodes[event.device]
                node.stall(event.at_s, event.at_s + fault.for_s)
                self._await(node)
            return
        sharers = self._emulated[event.device].sharers
        first = event.device - event.device % sharers
        for index in range(first, first + sharers) if fault.kind == LPDDR else [event.device]:
            self._degrade(index, event.at_s)

    def _degrade(self, index: int, at_s: float) -> None:
        """Put a device into the condition that it is in: by its own faults, and by those of its LPDDR tier."""
        sharers = self._emulated[index].sharers
        faults: dict[int, Fault] = {}
        for (number, _), (fault, device) in self._active.items():
            same_tier = device // sharers == index // sharers
            if device == index or (fault.kind == LPDDR and same_tier):
                faults[number] = fault
        emulated = self._emulated[index].in_condition(condition_of(faults.values()))
        ways = emulated.load()  # conditions may be many: they are not kept
        figures = emulated.figures(ways)
        self._tiers[index].left = emulated.condition.ext_share
        node = self.nodes[index]
        node.degrade(at_s, emulated.pricer(ways), limits_of(self._scenario, figures))
        self._await(node)
        self._router.set_speed(index, figures.token_s)
