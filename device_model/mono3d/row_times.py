"""The mean time from one activation to the next over an interval of rows: eight tiers of equally many rows each.

Stratum, 5.2 and 6.2.1: the tiering table gives equal numbers of rows to its tiers, the fastest first.
"""

import numpy as np

from device_model.arrays import Number
from device_model.specs.kinds.mono3d import Hardware
from device_model.step import FloatArray, IntArray

# Rows of an interval, of which fewer can't be told from none in sums over all rows.
LEAST = 1e-3


class RowTimes:
    """tRC over the rows of a bank, in ns. Rows are numbers from 0, and may be fractions."""

    def __init__(self, hardware: Hardware) -> None:
        self.trc_ns = hardware.trc_ns
        self.tiers = len(self.trc_ns)
        self.rows = hardware.rows
        self._tier_rows = self.rows / self.tiers
        self._ends = np.arange(self.tiers + 1) * self._tier_rows
        self._different = np.unique(self.trc_ns, return_inverse=True)[1]
        self._sums_ns = np.concatenate([[0.0], np.cumsum(self.trc_ns) * self._tier_rows])
        # Plain numbers, for the single step that a scheduler asks of most.
        self._tier_ns, self._tier_sums_ns = self.trc_ns.tolist(), self._sums_ns.tolist()

    @property
    def mean_ns(self) -> float:
        """Of all rows."""
        return float(self.trc_ns.mean())

    def between(self, first: Number, end: Number) -> Number:
        """Return the mean over rows `first` to `end`; that of the tier of `first` if there are none."""
        if isinstance(first, np.ndarray) or isinstance(end, np.ndarray):
            rows = np.maximum(end - first, LEAST)
            summed_ns = np.interp(first + rows, self._ends, self._sums_ns) - np.interp(first, self._ends, self._sums_ns)
            mean_ns: FloatArray = summed_ns / rows
            return mean_ns
        rows = max(end - first, LEAST)
        return (self._until_ns(first + rows) - self._until_ns(first)) / rows

    def _until_ns(self, row: float) -> float:
        """Return the sum of the times of all rows before one."""
        tier = min(int(row / self._tier_rows), self.tiers - 1)
        return float(self._tier_sums_ns[tier] + (row - tier * self._tier_rows) * self._tier_ns[tier])

    def tier_of(self, rows: FloatArray) -> IntArray:
        """Return the tier of each row, from 0: floor(8 a / rows). Those that take equally long are one: nothing is
        gained by a move from one to another.
        """
        tiers = np.minimum(rows * self.tiers // self.rows, self.tiers - 1).astype(np.int64)
        different: IntArray = self._different[tiers]
        return different
