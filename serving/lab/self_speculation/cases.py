"""What is measured: a case for each point of the papers' figures, with its draft said in plain values."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from serving.lab.self_speculation.drafts.elastic import TREATMENTS

SHARES = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)
WIDTHS = (3, 4, 5, 6, 8)
BATCHES = (1, 4, 8, 16)
PRUNED = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6)
DROPPED = (0, 2, 4, 5, 6)
DEPTHS = (3, 5, 7, 9)
DEPTH = 5
"""Draft tokens a step, as Cassandra-1's; ELMoE-3D does not print its own."""


@dataclass(frozen=True)
class Case:
    """A draft and how it decodes. What does not concern its family stays as it is, and is left out of the record."""

    family: str  # "elastic", "cassandra-1", "cassandra-2", "first-layers"
    depth: int = DEPTH
    temperature: float = 0.0
    treatment: str = "augmented"  # elastic: of the MSB slice
    bits: int = 4
    share: float = 1.0  # of the experts in the pool; 1 is no pool
    kind: str = "hot"  # of the pool
    batch: int = 1  # sequences that share it
    scope: str = "layer"
    memory: float = 0.01
    pruned: float = 0.0  # cassandra: share of the weights
    dropped: int = 0  # mantissa bits
    kv_pruned: float = 0.0
    kv_dropped: int = 0
    layers: int = 0  # first-layers

    def record(self) -> dict[str, Any]:
        """Return what distinguishes the case."""
        return {name: value for name, value in asdict(self).items() if name in OF[self.family]}

    def __str__(self) -> str:
        """Return what is not as by default, as text."""
        plain = asdict(Case(self.family))
        changed = [f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
                   for name, value in self.record().items() if value != plain[name]]  # fmt: skip
        return ", ".join([self.family, *changed])


ALL = ("family", "depth", "temperature")
CUTS = ("pruned", "dropped", "kv_pruned", "kv_dropped")
OF = {
    "elastic": (*ALL, "treatment", "bits", "share", "kind", "batch", "scope", "memory"),
    "cassandra-1": (*ALL, *CUTS),
    "cassandra-2": (*ALL, *CUTS),
    "first-layers": (*ALL, "layers"),
}


def cases(layers: int, quick: bool) -> dict[str, list[Case]]:
    """By figure, for a model of `layers`. A case may stand in several, and is measured once."""
    every = {
        "fig5b": [Case("elastic", share=share, bits=width) for share in SHARES for width in WIDTHS],
        "fig17a": [Case("elastic", share=share, kind=kind) for kind in ("hot", "random") for share in SHARES[:-1]],
        "fig17b": list(_batches()),
        "fig17c": [Case("elastic", treatment=name, bits=width) for name in TREATMENTS for width in range(3, 9)],
        "fig7a": [Case("cassandra-1", pruned=pruned, dropped=cut) for pruned in PRUNED for cut in DROPPED],
        "table4": list(_cassandra()),
        "first-layers": [Case("first-layers", layers=first) for first in range(1, layers)],
        "depth": [Case("elastic", share=0.5, depth=depth) for depth in DEPTHS],
        "hotness": list(_hotness()),
        "temperature": [Case("elastic", share=0.5, temperature=heat) for heat in (0.0, 0.7, 1.0)],
    }
    return {figure: [case for case in found if not quick or _is_quick(case)] for figure, found in every.items()}


def _batches() -> Iterator[Case]:
    for batch in BATCHES:
        for share in SHARES[:-1]:
            yield Case("elastic", share=share, batch=batch)
        for share in (0.25, 0.5):
            yield Case("elastic", share=share, kind="random", batch=batch)


def _cassandra() -> Iterator[Case]:
    """Yield the cases at the paper's point (VI-A), at both depths; and with its cache pruned as its weights are."""
    for family in ("cassandra-1", "cassandra-2"):
        for depth in (3, 5):
            yield Case(family, depth=depth, pruned=0.4, dropped=4, kv_dropped=4)
        yield Case(family, pruned=0.4, dropped=4, kv_dropped=4, kv_pruned=0.4)


def _hotness() -> Iterator[Case]:
    """Yield cases for what the paper leaves open of the pool: how long hotness lasts, whether layers compete for
    room."""
    for memory in (0.01, 0.5, 0.9, 1.0):
        yield Case("elastic", share=0.25, memory=memory)
    for share in (0.25, 0.5):
        yield Case("elastic", share=share, scope="all")


def _is_quick(case: Case) -> bool:
    """Tell whether a case is of a coarse grid that still has the ends of each axis."""
    coarse = case.share in (0.25, 0.5, 1.0) and case.bits in (3, 4, 8) and case.batch in (1, 16)
    return coarse and case.pruned in (0.0, 0.4) and case.dropped in (0, 4) and case.depth in (3, 5, 9)
