"""Curves of points: between them, the best within a budget, and differences with their standard errors."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from serving.selfspec.measure import Point, clustered, influence

SIGMAS = 2.0


class Difference(NamedTuple):
    """Of two acceptance rates, and its standard error: paired, as both are of the same prompts and texts."""

    value: float
    error: float

    @property
    def clear(self) -> bool:
        """Beyond two standard errors."""
        return abs(self.value) > SIGMAS * self.error

    def __str__(self) -> str:
        return f"{self.value:+.3f} ± {self.error:.3f}"


def difference(first: Point, second: Point) -> Difference:
    """By how much the first alpha is higher."""
    pairs = zip(influence(first.counts, first.case.depth), influence(second.counts, second.case.depth), strict=True)
    return Difference(first.alpha - second.alpha, clustered([one - other for one, other in pairs]))


def at(points: Iterable[Point], x: float, of: Callable[[Point], float]) -> float:
    """Alpha between points, linear in `of` them; beyond the ends the end's."""
    ordered = sorted(points, key=of)
    return float(np.interp(x, [of(point) for point in ordered], [point.alpha for point in ordered]))


def within(points: Iterable[Point], budget_bytes: float) -> Point | None:
    """The point of highest alpha that holds at most so many bytes."""
    affordable = [point for point in points if point.held_bytes <= budget_bytes * (1 + 1e-9)]
    return max(affordable, key=lambda point: point.alpha, default=None)


class Budget(NamedTuple):
    """The best that each way has within the bytes of a joint point."""

    held_bytes: float
    both: Point
    first: Point
    second: Point

    @property
    def lead(self) -> Difference:
        """Of both axes together over the better of either alone."""
        return difference(self.both, max(self.first, self.second, key=lambda point: point.alpha))


def budgets(both: list[Point], first: list[Point], second: list[Point]) -> list[Budget]:
    """At the bytes of each joint point, where both single axes reach so low; a joint point may use fewer bytes."""
    found = []
    for size in sorted({point.held_bytes for point in both}):
        best = [within(points, size) for points in (both, first, second)]
        if best[0] and best[1] and best[2]:
            found.append(Budget(size, best[0], best[1], best[2]))
    return found
