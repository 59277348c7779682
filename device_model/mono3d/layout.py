"""Layout of a model in the rows of Stratum's banks: Algorithm 1 (arXiv 2510.05245, 5.2).

From the fastest row on: shared experts, the hot ones, all other weights of near-memory compute, the KV cache, the cold
experts, and last what only the xPU reads. Every matrix is split over all banks of all chips, so that one number of
rows holds for each of them.

The paper counts rows of near-memory data (Phi) up to the end of the cold experts, and does not give Phi. Here a share
of the rows that hold no weights lies between hot and cold, for the KV cache; should that be full, it goes on behind the
cold experts. Nor does it say where a model without experts lies: evenly over all tiers, as there is nothing to rank.
"""

from math import ceil
from typing import NamedTuple

import numpy as np

from device_model.arrays import Number, least
from device_model.mono3d.row_times import RowTimes
from device_model.size import ModelSize
from device_model.specs.kinds.mono3d import Hardware
from device_model.specs.spec import Model
from device_model.step import FloatArray


class Layout(NamedTuple):
    """Rows at which the parts of a model end, one after the other from row 0; `expert_rows` are those of one expert.
    `even` is that everything lies evenly over all tiers."""

    expert_rows: int
    shared_end: float
    hot_end: float
    dense_end: float
    cold_start: float
    cold_end: float
    near_end: float
    even: bool

    def kv_ns(self, times: RowTimes, rows: Number) -> Number:
        """Return the mean tRC of a KV cache of so many rows."""
        if self.even:
            return times.mean_ns
        inside = least(rows, self.cold_start - self.dense_end)
        behind = rows - inside
        near = times.between(self.dense_end, self.dense_end + inside)
        far = times.between(self.cold_end, least(self.cold_end + behind, times.rows))
        return (inside * near + behind * far) / rows

    def slots(self, hot: int, experts: int) -> FloatArray:
        """Return the first row of the i-th expert [experts] by falling usage: hot ones follow upon each other from the
        fast end on, cold ones up to the slow end (Algorithm 1, lines 4 to 9).
        """
        index = np.arange(experts)
        from_end = self.cold_end - (experts - index) * self.expert_rows
        rows: FloatArray = np.where(index < hot, self.shared_end + index * self.expert_rows, from_end)
        return rows


def lay_out(model: Model, size: ModelSize, hardware: Hardware, kv_share: float) -> Layout:
    """Return the layout of a model that fits, with that share of the free rows between hot and cold experts."""
    row_bytes, weights = hardware.row_bytes_of_all, size.weights
    expert_rows = ceil(size.expert_bytes / row_bytes) if model.experts else 0
    shared_bytes = weights.shared_experts * model.static_bytes_per_weight
    hot = hot_experts(model)
    shared_end = shared_bytes / row_bytes
    hot_end = shared_end + hot * expert_rows
    # Embedding, norms and routers are the xPU's alone.
    xpu_bytes = (weights.table * (weights.tables - 1) + weights.norms + weights.router) * model.static_bytes_per_weight
    dense_end = hot_end + (size.static_bytes - shared_bytes - xpu_bytes) / row_bytes
    near_end = hardware.rows - xpu_bytes / row_bytes
    cold_rows = (size.experts - hot) * expert_rows
    cold_start = dense_end + kv_share * (near_end - dense_end - cold_rows)
    return Layout(
        expert_rows, shared_end, hot_end, dense_end, cold_start, cold_start + cold_rows, near_end, not model.experts
    )


def hot_experts(model: Model) -> int:
    """Return how many experts of all layers are hot: tau = k L (Algorithm 1, line 2)."""
    return model.top_k * model.expert_layers
