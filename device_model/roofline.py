"""Roofline of a step: seconds of each of its parts, one after the other.

ELMoE-3D has two kinds of memory (5.1, Fig. 9). HB is coupled: each PE reads its own bank, so that work spread over a
share of the PEs gets that share of both bandwidth and throughput; tensor parallelism engages them all. EXT is
decoupled: one stream feeds however many PEs are busy, and data parallelism keeps no more busy than there are tokens.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from device_model.arrays import Number

NEVER_BOUND = float("inf")
BOUNDS = HB, EXT, COMPUTE, LINKS = ("HB", "EXT", "compute", "links")
DRAFT, TARGET, TRANSFER = "draft", "target", "transfer"
"""What a stage of a step is for."""


class Unit(NamedTuple):
    """Something that computes, and the memories that it reads. A rate of infinity is one that never holds it up."""

    name: str
    macs_per_s: float
    hb_bytes_per_s: Number
    ext_bytes_per_s: float
    link_bytes_per_s: float  # PSUMs between PEs
    j_per_mac: Number
    hb_j_per_byte: Number
    ext_j_per_byte: float
    link_j_per_byte: float
    streamed: float = 1.0  # whether what EXT delivers runs over the streamline (0 near memory)
    bus_share: float = 1.0  # of a byte that EXT delivers, what its bus carries in that time: less than one within it
    granted_share: float = 1.0  # of EXT's bandwidth


class Part(NamedTuple):
    """An operator of a pass, over all layers: what it asks of the unit that carries it out, and why it is that unit.

    Compute, both memories and the links work at the same time. Each figure is a number, or an array over steps.
    `hb_writes` are experts that are written into HB as they stream by.
    """

    name: str
    unit: Unit
    why: str
    macs: Number
    hb_bytes: Number = 0.0
    ext_bytes: Number = 0.0
    hb_writes: Number = 0.0
    link_bytes: Number = 0.0

    def times(self) -> tuple[Number, Number, Number, Number]:
        """Seconds that HB (but for the writes), EXT, compute and links take."""
        unit = self.unit
        return (
            self.hb_bytes / unit.hb_bytes_per_s,
            self.ext_bytes / unit.ext_bytes_per_s,
            self.macs / unit.macs_per_s,
            self.link_bytes / unit.link_bytes_per_s,
        )

    def bound(self) -> str:
        """Return what holds this part up: its slowest resource, in the first of several steps."""
        return max(zip(self.times(), BOUNDS, strict=True), key=lambda pair: float(np.ravel(pair[0])[0]))[1]


class StageTotals(NamedTuple):
    """What a stage takes: seconds without the writes into HB, seconds that these add where they are not hidden, joules
    by component, and bytes by tier."""

    plain_s: Number
    exposed_s: Number
    compute_j: Number
    ext_j: Number
    hb_j: Number
    comm_j: Number
    hb_bytes: Number
    ext_bytes: Number


class Stage(NamedTuple):
    """A pass, carried out `repeats` times: groups of parts, one group after another, the parts of a group at once.

    Layers follow upon each other, so that the times of groups add; and being alike, they may be taken together.
    `wait_s` is what it takes beside: latencies, in which nothing computes or moves. `own_w` are watts that it draws
    beyond those of any step, whatever it does.
    """

    name: str
    repeats: int
    groups: tuple[tuple[Part, ...], ...]
    wait_s: Number = 0.0
    own_w: float = 0.0

    def totals(self, largest: Callable[..., Number]) -> StageTotals:
        """Of all repeats; `largest` is `max` for plain numbers, `arrays.largest` for arrays over steps.

        Joules are what is moved and computed times its price. A write into HB costs what ELMoE-3D, Table 1 gives for a
        read. Communication is the streamline's, which carries all that EXT delivers to the PEs (4.1), and the PSUMs of
        the aggregation links.
        """
        exposed_s = compute_j = ext_j = hb_j = comm_j = hb_bytes = ext_bytes = 0.0  # type: Number
        plain_s: Number = self.wait_s
        for group in self.groups:
            took_s = writing_s = 0.0  # type: Number
            for part in group:
                # Unpacked, as this is where a probe spends most of its time.
                _, unit, _, macs, hb, ext, writes, link = part
                _, macs_rate, hb_rate, ext_rate, link_rate, per_mac, per_hb, per_ext, per_link, streamed, bus, _ = unit
                moved = hb + writes
                took_s = largest(took_s, hb / hb_rate, ext / ext_rate, macs / macs_rate, link / link_rate)
                writing_s = largest(writing_s, moved / hb_rate)
                compute_j, ext_j = compute_j + macs * per_mac, ext_j + ext * per_ext
                hb_j, comm_j = hb_j + moved * per_hb, comm_j + (ext * streamed + link) * per_link
                hb_bytes, ext_bytes = hb_bytes + moved, ext_bytes + ext * bus
            plain_s, exposed_s = plain_s + took_s, exposed_s + (largest(took_s, writing_s) - took_s)
        each = (plain_s, exposed_s, compute_j, ext_j, hb_j, comm_j, hb_bytes, ext_bytes)
        return StageTotals(*each) if self.repeats == 1 else StageTotals(*(total * self.repeats for total in each))
