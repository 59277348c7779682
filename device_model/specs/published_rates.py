"""Acceptance rates that ELMoE-3D publishes, by model, draft scheme, HB size and batch: its Table 3 without speedups."""

from collections.abc import Mapping
from functools import cache
from math import inf, prod
from pathlib import Path
from typing import NamedTuple

from device_model.specs.rates_file import number, read_rows
from device_model.specs.spec import SpecError
from device_model.specs.spec_file import SPECS

ELMOE3D = SPECS / "acceptance" / "elmoe3d.csv"
CONTEXT = 1024
"""Tokens that they are published for ("We use 1k sequence length for baseline", 7)."""
COLUMNS = ("model", "scheme", "hb_gb", "batch", "alpha")

PublishedRates = Mapping[tuple[str, str, float, int], float]
"""Accepted draft tokens over depth, by the model's spec file, scheme ("EAGLE3"), HB size in GB and batch."""


class PublishedRange(NamedTuple):
    """The sizes of HB in GiB, and the batches, between which rates are published."""

    least_gb: float
    most_gb: float
    most_batch: int


@cache
def published_range() -> PublishedRange:
    """Return the range of ELMoE-3D's rates."""
    _, _, sizes, batches = zip(*read_published(), strict=True)
    return PublishedRange(min(sizes), max(sizes), max(batches))


def read_published(path: Path = ELMOE3D) -> PublishedRates:
    """Return the rates of a file with the columns `COLUMNS`, one for each combination of what stands in the first four.

    Raise SpecError, which names the file and what is wrong with it.
    """
    rates: dict[tuple[str, str, float, int], float] = {}
    for count, row in enumerate(read_rows(path, COLUMNS), 1):
        where = f"{path}, point {count}"
        hb_gb = number(row, "hb_gb", where, lambda v: 0 < v < inf)
        batch = int(number(row, "batch", where, lambda v: v >= 1 and v.is_integer()))
        rates[row["model"], row["scheme"], hb_gb, batch] = number(row, "alpha", where, lambda v: 0 <= v <= 1)
    if not rates or len(rates) != prod(len(set(axis)) for axis in zip(*rates, strict=True)):
        raise SpecError(f"{path} has {len(rates)} points; required is one for each model, scheme, HB size and batch.")
    return rates
