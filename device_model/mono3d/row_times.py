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
        self._ends = np.linspace(0, self.rows, self.tiers + 1)
        self._sums_ns = np.concatenate([[0.0], np.cumsum(self.trc_ns) * (self.rows / self.tiers)])

    @property
    def mean_ns(self) -> float:
        """Of all rows."""
        return float(self.trc_ns.mean())

    def between(self, first: Number, end: Number) -> Number:
        """The mean over rows `first` to `end`; that of the tier of `first` if there are none."""
        rows = np.maximum(np.asarray(end) - first, LEAST)
        mean_ns = (
            np.interp(first + rows, self._ends, self._sums_ns) - np.interp(first, self._ends, self._sums_ns)
        ) / rows
        return mean_ns if isinstance(end, np.ndarray) or isinstance(first, np.ndarray) else float(mean_ns)

    def tier_of(self, rows: FloatArray) -> IntArray:
        """The tier of each row, from 0: floor(8 a / rows)."""
        tiers: IntArray = np.minimum(rows * self.tiers // self.rows, self.tiers - 1).astype(np.int64)
        return tiers
