"""Two fidelities of what HB holds of the experts, behind one interface.

Analytic: the laws of `locality_laws`, calibrated, that know numbers of tokens only. Trace: a real cache (`residency`)
that is fed with the expert ids of each pass (`traced_cache`). Either answers what a pass would read without changing
anything (`probe`), and carries it out (`commit`).
"""

from enum import Enum
from typing import NamedTuple, Protocol

from device_model.arrays import Number, least
from device_model.experts.locality_laws import Experts, PassTokens
from device_model.experts.residency import Reads
from device_model.step import DraftRoutes, FloatArray, IntArray


class HeldAs(Enum):
    """As what HB holds experts: whole, as the slices that a draft's pool has, or as copies in fewer bits."""

    WHOLE = "whole"
    SLICES = "slices"
    COPIES = "copies"


class PlacementMix(NamedTuple):
    """The mix of topics that HB's experts are placed for, and as how many independent `tokens` of each topic a pass
    chooses, those of unknown topic last."""

    mix: tuple[float, ...]
    tokens: FloatArray


class CacheAsk(NamedTuple):
    """A pass as a cache is asked about it: its tokens, the room in HB in slices (experts of one layer, as the cache
    holds them), as what it holds them, at trace fidelity the ids that its routers chose, those that a draft's passes
    chose before it, and, if HB does not hold what was used but what was placed there, of what."""

    tokens: PassTokens
    slices: Number
    held_as: HeldAs = HeldAs.WHOLE
    routes: IntArray | None = None
    drafts: DraftRoutes | None = None
    placed: PlacementMix | None = None

    @property
    def pool(self) -> bool:
        """Tell whether it is about a pool of slices."""
        return self.held_as is HeldAs.SLICES


class ExpertCache(Protocol):
    """What HB holds of the experts."""

    def probe(self, ask: CacheAsk) -> Reads:
        """Slices that a pass would read, find and bring in."""
        ...

    def commit(self, ask: CacheAsk) -> Reads:
        """Return what a pass reads, finds and brings in, and carry it out."""
        ...


class Analytic:
    """Expected values: they have no state, so that carrying a pass out changes nothing."""

    def __init__(self, experts: Experts, slices: int) -> None:
        """`slices`: experts of all layers."""
        self._experts = experts
        self._slices = slices

    def probe(self, ask: CacheAsk) -> Reads:
        touched = self._experts.touched(ask.tokens) * self._slices
        cached = least(ask.slices / self._slices, 1.0) if self._slices else 0.0 * ask.slices
        beyond: Number = 0.0
        if ask.pool:
            hits = self._experts.pool_hits(cached) * touched
        else:
            law, beyond = self._experts.hits_and_beyond(cached, ask.tokens)
            hits, beyond = law * touched, beyond * touched
        return Reads(touched, hits, least(touched - hits, ask.slices), beyond)  # type: ignore[arg-type]  # or arrays

    def commit(self, ask: CacheAsk) -> Reads:
        return self.probe(ask)
