"""Fault timeline: the begins and ends of a scenario's faults, in order of time."""

import heapq
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from serving.scenario.faults import Fault, FaultEvent, events
from serving.scenario.scenario import Scenario
from serving.types import NEVER


class FaultOccurrence(NamedTuple):
    """A fault's event; `id` is the fault's place in the scenario."""

    id: int
    fault: Fault
    event: FaultEvent


class FaultTimeline:
    """Events of all faults on `devices` devices. Random faults never run out of events."""

    def __init__(self, scenario: Scenario, devices: int) -> None:
        streams = [_of_fault(id, fault, range(devices), scenario.seed) for id, fault in enumerate(scenario.fault_specs)]
        self._coming = heapq.merge(*streams, key=lambda each: (each.event.at_s, each.event.begins, each.id))
        self._next = next(self._coming, None)

    @property
    def next_s(self) -> float:
        """The instant of the next event."""
        return self._next.event.at_s if self._next is not None else NEVER

    def take(self) -> FaultOccurrence:
        """Remove and return the next event."""
        assert self._next is not None
        taken, self._next = self._next, next(self._coming, None)
        return taken


def _of_fault(id: int, fault: Fault, devices: Iterable[int], seed: int) -> Iterator[FaultOccurrence]:
    return (FaultOccurrence(id, fault, event) for event in events(fault, devices, seed + id))
