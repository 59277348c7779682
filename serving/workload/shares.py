"""Shares of topics, SLO classes and API keys among requests; they may drift over time."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from serving.nearest_name import meant
from serving.toml_table import AT_LEAST_0, TomlTable

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares [k, n] of `names` [n] at instants `at_s` [k]: between two of them on a straight line, before the first
    and after the last as there."""

    names: tuple[str, ...]
    at_s: Values
    shares: Values

    def pick(self, drawn: Values, at_s: Values) -> list[str]:
        """Return a name for each draw, uniform in [0, 1), at its instant."""
        if len(self.names) == 1:
            return [self.names[0]] * len(drawn)
        up_to = np.cumsum(self.shares, axis=1)[:, :-1]
        if len(self.at_s) == 1:
            places = np.searchsorted(up_to[0], drawn, side="right")
        else:
            # Shares on straight lines have sums on straight lines.
            places = sum(drawn >= np.interp(at_s, self.at_s, column) for column in up_to.T)
        names = self.names
        return [names[place] for place in places.tolist()]

    def at(self, at_s: float) -> dict[str, float]:
        """Return the shares at an instant."""
        found = (float(np.interp(at_s, self.at_s, column)) for column in self.shares.T)
        return dict(zip(self.names, found, strict=True))


NOBODY = Shares(("",), np.zeros(1), np.ones((1, 1)))


def shares(table: TomlTable, key: str, allowed: Collection[str] | None = None) -> Shares:
    """Parse the shares at a key: a table of them by name, or a list of such tables, each with its `at_s`. They need not
    add up to 1. `allowed` are the valid names, if not all."""
    value = table.get(key)
    if value is None:
        return NOBODY
    if isinstance(value, dict):
        return _made([0.0], [_row(table.below(key, value), list(value), allowed)])
    if not isinstance(value, list) or not value or not all(isinstance(each, dict) for each in value):
        raise table.wrong(key, value, "a table of shares by name, or a list of them, each with its `at_s`")
    belows = [table.below(key, each, place) for place, each in enumerate(value)]
    times = [below.number("at_s", AT_LEAST_0) for below in belows]
    for below, one, other in zip(belows[1:], times, times[1:], strict=False):
        if other <= one:
            raise below.wrong("at_s", other, f"later than the one before, {one:g}")
    return _made(times, [_row(below, [name for name in below.values if name != "at_s"], allowed) for below in belows])


def _row(table: TomlTable, names: list[str], allowed: Collection[str] | None) -> dict[str, float]:
    if allowed is not None and (unknown := [name for name in names if name not in allowed]):
        raise table.error(
            unknown[0], f"is none of those that there are: {', '.join(allowed)}{meant(unknown[0], allowed)}."
        )
    row = {name: table.number(name, AT_LEAST_0) for name in names}
    if sum(row.values()) <= 0:
        raise table.error("", "has no share above 0: some name must have one.")
    return row


def _made(times: list[float], rows: list[dict[str, float]]) -> Shares:
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    found = np.array([[row.get(name, 0.0) for name in names] for row in rows])
    return Shares(names, np.array(times), found / found.sum(axis=1, keepdims=True))
