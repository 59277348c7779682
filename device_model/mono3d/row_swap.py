"""Row swaps: the cost of giving experts other tiers, for which rows trade places within their banks (Stratum, 3.2 and
5.2).

The row-swap buffer of a PE holds two rows: both are read, and written where the other one was, in all banks of all
chips at once. So an expert that moves costs one opening of each of its rows where it was, and one where it goes; two
that trade places cost two of either. Longer rounds of more than two experts cost the same for each that moves.
"""

from typing import NamedTuple

import numpy as np

from device_model.mono3d.layout import Layout, hot_experts
from device_model.mono3d.row_times import RowTimes
from device_model.specs.kinds.mono3d import Hardware
from device_model.specs.spec import NANO, Model
from device_model.step import FloatArray, IntArray


class RowSwap(NamedTuple):
    """Experts that changed their tier, or how many are expected to; seconds, bytes read and written, and joules."""

    experts: float
    seconds: float
    bytes: float
    joules: float


class Slots:
    """The places of a model's experts, by falling usage: tRC in ns [experts], and tier [experts]."""

    def __init__(self, model: Model, layout: Layout, times: RowTimes, hardware: Hardware) -> None:
        first = layout.slots(hot_experts(model), model.experts * model.expert_layers)
        self.trc_ns: FloatArray = np.asarray(times.between(first, first + layout.expert_rows))
        self.tiers: IntArray = times.tier_of(first)
        self._expert_rows = layout.expert_rows
        self.model, self._hardware = model, hardware

    def swap(self, before: IntArray, after: IntArray) -> RowSwap:
        """Return the swap from one ranking of experts to another: `before` and `after` have the place of each expert
        [experts]. Who stays in a tier stays where it is.
        """
        moved = self.tiers[before] != self.tiers[after]
        opened_ns = float((self.trc_ns[before] + self.trc_ns[after])[moved].sum())
        return self._swap(float(moved.sum()), opened_ns)

    def expected_swap(self, kept_share: float) -> RowSwap:
        """Return the swap between two topics of which only is known that `kept_share` of the experts keep their tier
        beyond what chance keeps: p_t of tier t by chance, p_t its share of the experts.
        """
        count = len(self.tiers)
        tiers, members = np.unique(self.tiers, return_counts=True)
        mean_ns = np.array([self.trc_ns[self.tiers == tier].mean() for tier in tiers])
        share = members / count
        pairs = np.outer(share, share) * (1 - np.eye(len(tiers)))
        moving = (1 - kept_share) * count
        opened_ns = moving * float((pairs * (mean_ns[:, None] + mean_ns)).sum())
        return self._swap(moving * float(pairs.sum()), opened_ns)

    def _swap(self, experts: float, opened_ns: float) -> RowSwap:
        moved_bytes = experts * self._expert_rows * 2 * self._hardware.row_bytes_of_all
        joules = moved_bytes * self._hardware.read_j_per_byte
        return RowSwap(experts, self._expert_rows * opened_ns * NANO, moved_bytes, joules)
