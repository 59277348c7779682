"""Acceptance rates that were measured on a model, by the share of its experts that drafts could use, and the batch."""

from dataclasses import dataclass
from math import log2
from pathlib import Path

import numpy as np

from device_model.specs.rates_file import number, read_rows
from device_model.specs.spec import DeviceError, SpecError
from device_model.specs.spec_file import SPECS

BUNDLED = SPECS / "acceptance" / "foreserve-moe.csv"
"""Of the bundled token model, by `foreserve speculate`."""
COLUMNS = ("pool", "share", "batch", "depth", "alpha")
POOLS = {"Elastic-SD": "hot", "Random-SD": "random", "Quant-SD": "quantised"}
"""What was measured, by the published name of the scheme that drafts so."""


@dataclass(frozen=True, slots=True)
class MeasuredRates:
    """Rates at points (share, batch) of one draft depth; `read_measured` reads them."""

    depth: int
    points: dict[str, dict[tuple[float, int], float]]

    def alpha(self, pool: str, share: float, batch: int) -> float:
        """Return how many of `depth` drafts are accepted, as a share. Linear in the share of the experts, from nothing
        accepted with no expert on, and in the logarithm of the batch; beyond the batches measured that of the nearest.
        Raise DeviceError for another pool."""
        if pool not in self.points:
            raise DeviceError(f"No acceptance was measured of {pool!r}; there is {', '.join(self.points)}.")
        points = self.points[pool]
        batches = sorted({at[1] for at in points})
        rates = []
        for measured in batches:
            shares = sorted(s for s, b in points if b == measured)
            rates.append(float(np.interp(share, [0.0, *shares], [0.0, *(points[s, measured] for s in shares)])))
        return float(np.interp(log2(batch), [log2(b) for b in batches], rates))


def read_measured(path: Path = BUNDLED) -> MeasuredRates:
    """Return the rates of a file with the columns `COLUMNS`. Raise SpecError, which names file, line and column of what
    is wrong."""
    points: dict[str, dict[tuple[float, int], float]] = {}
    depths = set()
    for count, row in enumerate(read_rows(path, COLUMNS), 1):
        where = f"{path}, point {count}"
        share = number(row, "share", where, lambda v: 0 < v <= 1)
        batch = int(number(row, "batch", where, lambda v: v >= 1 and v.is_integer()))
        points.setdefault(row["pool"], {})[share, batch] = number(row, "alpha", where, lambda v: 0 <= v <= 1)
        depths.add(int(number(row, "depth", where, lambda v: v >= 1 and v.is_integer())))
    if len(depths) != 1:
        raise SpecError(f"{path}: depth is {sorted(depths)}; allowed is one and the same for all points.")
    return MeasuredRates(depths.pop(), points)
