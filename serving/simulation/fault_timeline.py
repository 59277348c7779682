"""When faults of a scenario begin and end, in order of time."""

import heapq
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from serving.scenario.faults import Fault, FaultEvent, events, parse_fault
from serving.scenario.scenario import Scenario
from serving.types import NEVER


class Coming(NamedTuple):
    """An event of a fault, which is known by its place in the scenario."""

    id: int
    fault: Fault
    event: FaultEvent


class FaultTimeline:
    """Events of all faults on `devices` devices. Those of faults at random never end."""

    def __init__(self, scenario: Scenario, devices: int) -> None:
        """Raises TermError for what is no fault."""
        faults = [parse_fault(text, "An entry of `faults`") for text in scenario.faults]
        streams = [_of_fault(id, fault, range(devices), scenario.seed) for id, fault in enumerate(faults)]
        self._coming = heapq.merge(*streams, key=lambda each: (each.event.at_s, each.event.begins, each.id))
        self._next = next(self._coming, None)

    @property
    def next_s(self) -> float:
        """When the next event comes."""
        return self._next.event.at_s if self._next is not None else NEVER

    def take(self) -> Coming:
        """The next event comes."""
        assert self._next is not None
        taken, self._next = self._next, next(self._coming, None)
        return taken


def _of_fault(id: int, fault: Fault, devices: Iterable[int], seed: int) -> Iterator[Coming]:
    return (Coming(id, fault, event) for event in events(fault, devices, seed + id))
