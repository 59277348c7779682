"""What breaks in a run in virtual time, and when: the faults of a scenario, and those that are there at the moment."""

import heapq
from collections.abc import Iterable, Iterator

from device_model.condition import Condition
from serving.scenario.faults import LPDDR, Event, Fault, condition_of, events, parse_fault
from serving.scenario.scenario import Scenario
from serving.types import NEVER


class Breaking:
    """Events of all faults on `devices` devices, in order of time, and what those so far leave of a device."""

    def __init__(self, scenario: Scenario, devices: int) -> None:
        """Raises TermError for what is no fault."""
        self._sharers = scenario.shared_ext
        self._faults = [parse_fault(text, "An entry of `faults`") for text in scenario.faults]
        every = range(devices)
        streams = [self._of_fault(number, fault, every, scenario.seed) for number, fault in enumerate(self._faults)]
        self._coming = heapq.merge(*streams, key=lambda each: (each[1].at_s, each[1].begins, each[0]))
        self._next = next(self._coming, None)
        # By fault and occurrence, where it is.
        self._active: dict[tuple[int, int], int] = {}

    @property
    def next_s(self) -> float:
        """When the next event comes."""
        return self._next[1].at_s if self._next is not None else NEVER

    def happen(self) -> tuple[Fault, Event]:
        """The next event comes."""
        assert self._next is not None
        number, event = self._next
        if event.begins:
            self._active[number, event.number] = event.device
        else:
            self._active.pop((number, event.number), None)
        self._next = next(self._coming, None)
        return self._faults[number], event

    def reached(self, fault: Fault, device: int) -> range:
        """The devices that a fault on one of them concerns: with an LPDDR tier all that share it."""
        first = device - device % self._sharers
        return range(first, first + self._sharers) if fault.kind == LPDDR else range(device, device + 1)

    def condition(self, device: int) -> Condition:
        """What all faults that are there leave of a device."""
        # Of one fault, however often it is there at once, only one occurrence counts.
        there = {
            number: self._faults[number]
            for (number, _), where in self._active.items()
            if device in self.reached(self._faults[number], where)
        }
        return condition_of(there.values())

    def _of_fault(self, number: int, fault: Fault, every: Iterable[int], seed: int) -> Iterator[tuple[int, Event]]:
        return ((number, event) for event in events(fault, every, seed + number))
