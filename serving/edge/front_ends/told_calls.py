"""Calls of an edge in a process of its own, as the engine core is told of them: by numbers, until their end."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from serving.call import Call, text
from serving.edge.front_ends.core_calls import CoreCalls
from serving.edge.front_ends.edge_messages import ENDED, BroughtCall, CallEnd
from serving.edge.request_bounds import check_integers


class ToldCalls:
    """The calls that the core has heard of."""

    def __init__(self, core: CoreCalls) -> None:
        self.traced = False
        """Tells whether calls are logged or traced, also those that the edge has refused by itself."""
        self._core, self._numbers = core, count(1)
        self._there = set[int]()

    @property
    def numbers(self) -> list[int]:
        """The numbers of those that have not ended."""
        return list(self._there)

    def number(self, call: Call) -> int:
        """Return the number by which the core knows a call."""
        if not call.number:
            call.number = next(self._numbers)
            self._there.add(call.number)
        return call.number

    def brought(self, call: Call) -> BroughtCall:
        """Return a call as the core is told of it. Raise `OutOfBounds` for an integer that can't be sent."""
        for field, said in call.body.items():
            check_integers(field, said)
        return self._brought(call, call.body)

    def answered(self, call: Call) -> None:
        """Tell the core that a call was answered, or broken off, and of one that it never heard of if it was
        refused."""
        unheard = self.traced and not call.number and call.failed
        # What is in its body may be why.
        self.end(call, self._brought(call, {}) if unheard else None)

    def end(self, call: Call, brought: BroughtCall | None = None) -> None:
        """Tell the core of the end of a call, if it has that."""
        if call.number:
            self._core.tell(ENDED, CallEnd(call.number, call.status, brought))
            self._there.discard(call.number)
            call.number = 0

    def _brought(self, call: Call, body: Mapping[str, Any]) -> BroughtCall:
        headers = [(text(name), text(value)) for name, value in call.headers]
        return BroughtCall(self.number(call), call.route, call.arrival_s, headers, dict(body), call.posted_s)
