"""Recorded texts for virtual time: what the sequences of a batch say where they read the recording of routes."""

from functools import lru_cache

import numpy as np

from device_model.step import IntArray
from serving.device.device_spec import Followed
from serving.device.routed_pricing import TracedDevice
from serving.drafting.attention import KeyValues
from serving.drafting.drafter import DraftContext, Drafter, drafter
from serving.simulation.recorded_routes import RecordedRoutes, tape_of
from serving.types import Batch

# Requests whose keys and values are kept, at some 300 kB each of the bundled model.
KEPT = 128


class RecordedTexts:
    """The `Texts` of a recording: each sequence has the tokens of the recorded request that it reads then, up to where
    it reads, and what followed there."""

    def __init__(self, trace: TracedDevice, routes: RecordedRoutes) -> None:
        self._routes = routes
        self._tape, self._drafter = tape_of(trace.token_model), drafter(trace.token_model, trace.draft)

    def contexts(self, batch: Batch, context: IntArray, which: list[int]) -> list[DraftContext | None]:
        """Return what sequences say; all of it is known."""
        places = self._routes.places(batch, context)
        return [self._context(int(places[i])) for i in which]

    def _context(self, at: int) -> DraftContext:
        ids, ends = self._tape.ids, self._tape.ends
        request = int(np.searchsorted(ends, at, side="right"))
        start = int(ends[request - 1]) if request else 0
        said = ids[start : ends[request]].tolist()
        kv = _read(self._drafter, tuple(said))
        return DraftContext(kv.upto(at - start), said[at - start], said[at - start + 1 :])


def recorded(trace: TracedDevice) -> Followed:
    """Return the recording of a token model for a device to follow. Raise UsageError if there is none."""
    routes = RecordedRoutes(trace)
    return Followed(routes, lambda: RecordedTexts(trace, routes))


@lru_cache(maxsize=KEPT)
def _read(drafter: Drafter, ids: tuple[int, ...]) -> KeyValues:
    """Return the keys and values of a recorded request's tokens."""
    return drafter.read(list(ids))
