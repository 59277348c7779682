"""A scenario in virtual time: its devices and their schedulers, the router, LPDDR tiers and faults, in one process.

    outcomes, records = Simulated(Scenario(devices=2)).serve(requests)

Engine, schedulers, policies, prices, router and faults are those of a server. There are no clients, actors or texts:
requests have as many tokens as they may have, and nobody is turned away.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, groupby

from serving.bringup import check_faults, load_fleet
from serving.emulated import Emulated, Figures
from serving.faults import LOST, LPDDR, STALL, Event, Fault, condition_of, events, parse_fault
from serving.flow import NEVER, Request, StepRecord
from serving.lpddr import LEASE_S, Lpddr
from serving.policies.routing import make_policy
from serving.router import Router
from serving.scenario import Scenario, ScenarioError
from serving.scheduling import limits_of, rules_of
from serving.virtual import Listener, Outcome, VirtualNode


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
        self._order = count()
        self.nodes = [self._node(index, *member, leaps) for index, member in enumerate(fleet)]
        self._ended: list[tuple[float, int, int, Request]] = []
        self._faults = [parse_fault(text, "An entry of `faults`") for text in scenario.faults]
        self._active: dict[tuple[int, int], tuple[Fault, int]] = {}
        self._coming = self._events()
        self._next = next(self._coming, None)

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
        return self.nodes[self._router.choose(request)].submit(request)

    def next_end(self, until_s: float) -> tuple[float, Request] | None:
        """Go on until a request ends, and no later than an instant; which, and when. None if none ends by then.

        No device goes further than the others, but for the step that it is in: for requests that follow others.
        """
        while True:
            next_s = min(until_s, self._next[1].at_s if self._next else NEVER)
            busy = [node for node in self.nodes if node.goes_on(next_s)]
            lead_s = min((node.engine.at for node in busy), default=next_s)
            if self._ended and self._ended[0][0] <= min(lead_s, next_s):
                at_s, _, index, request = heapq.heappop(self._ended)
                self._router.done([(index, request)])
                return at_s, request
            if busy:
                min(busy, key=lambda node: node.engine.at).cycle(next_s)
            elif self._next is not None and next_s < until_s and self._busy(until_s):
                self._happen(*self._next)
                self._next = next(self._coming, None)
            else:
                return None

    def _node(self, index: int, emulated: Emulated, figures: Figures, leaps: bool) -> VirtualNode:
        shared = emulated.sharers > 1
        first = index - index % emulated.sharers
        self._tiers.append(Throttled(Lpddr(figures.ext_bytes_per_s) if first == index else self._tiers[first].tier))
        limits, rules = limits_of(self._scenario, figures), rules_of(self._scenario, figures)
        pricer = emulated.pricer(emulated.load())
        node = VirtualNode(index, pricer, self._tiers[index], limits, rules, leaps, self._listener)
        node.engine.lease_s = LEASE_S if shared else NEVER
        node.on_end = lambda at_s, request: heapq.heappush(self._ended, (at_s, next(self._order), index, request))
        self._router.add(index, figures.token_s)
        return node

    def _advance(self, until_s: float) -> None:
        """Have the devices come to an instant, and what breaks before it break."""
        while self._next is not None and self._next[1].at_s <= until_s and self._busy(until_s):
            self._run(self._next[1].at_s)
            self._happen(*self._next)
            self._next = next(self._coming, None)
        self._run(until_s)
        # A step that is under way may have ended requests at an instant that is still to come.
        while self._ended and self._ended[0][0] <= until_s:
            *_, index, request = heapq.heappop(self._ended)
            self._router.done([(index, request)])

    def _busy(self, until_s: float) -> bool:
        """Whether anything is still to be done: faults at random never end."""
        return until_s < NEVER or any(node.busy for node in self.nodes)

    def _run(self, until_s: float) -> None:
        """Devices on one tier go on in turn, whoever is behind first; others need not wait for each other."""
        for _, group in groupby(self.nodes, key=lambda node: node.index // self._scenario.shared_ext):
            nodes = list(group)
            if len(nodes) == 1:
                nodes[0].run(until_s)
            while behind := [node for node in nodes if node.goes_on(until_s)]:
                min(behind, key=lambda node: node.engine.at).cycle(until_s)

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
                engine = self.nodes[event.device].engine
                engine.stall(max(engine.stalled_until, event.at_s + fault.for_s))
            return
        sharers = self._emulated[event.device].sharers
        first = event.device - event.device % sharers
        for index in range(first, first + sharers) if fault.kind == LPDDR else [event.device]:
            self._degrade(index)

    def _degrade(self, index: int) -> None:
        """Put a device into the condition that it is in: by its own faults, and by those of its LPDDR tier."""
        sharers = self._emulated[index].sharers
        faults: dict[int, Fault] = {}
        for (number, _), (fault, device) in self._active.items():
            same_tier = device // sharers == index // sharers
            if device == index or (fault.kind == LPDDR and same_tier):
                faults[number] = fault
        emulated = self._emulated[index].in_condition(condition_of(faults.values()))
        ways = emulated.load()
        figures = emulated.figures(ways)
        self._tiers[index].left = emulated.condition.ext_share
        self.nodes[index].change(emulated.pricer(ways), limits_of(self._scenario, figures))
        self._router.set_speed(index, figures.token_s)
