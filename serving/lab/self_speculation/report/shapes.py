"""Curves of points: between them, the best within a budget, and differences with their standard errors."""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from serving.lab.self_speculation.measure import MeasuredPoint, clustered, influence

SIGMAS = 2.0


class ShapeDifference(NamedTuple):
    """Of acceptance rates, and its standard error: paired, as all are of the same prompts and texts."""

    value: float
    error: float

    @property
    def clear(self) -> bool:
        """Beyond two standard errors."""
        return abs(self.value) > SIGMAS * self.error

    def __str__(self) -> str:
        return f"{self.value:+.3f} ± {self.error:.3f}"


def difference(first: MeasuredPoint, second: MeasuredPoint) -> ShapeDifference:
    """By how much the first alpha is higher."""
    return _contrast((1, first), (-1, second))


def bend(first: MeasuredPoint, middle: MeasuredPoint, last: MeasuredPoint) -> ShapeDifference:
    """By how much more alpha falls from the middle point to the last than from the first to the middle one."""
    return _contrast((2, middle), (-1, first), (-1, last))


def _contrast(*weighted: tuple[int, MeasuredPoint]) -> ShapeDifference:
    """Return a sum of alphas, each with a weight."""
    drawn = [[weight * each for each in influence(point.counts, point.case.depth)] for weight, point in weighted]
    value = sum(weight * point.alpha for weight, point in weighted)
    return ShapeDifference(value, clustered([sum(of_one) for of_one in zip(*drawn, strict=True)]))


def at(points: Iterable[MeasuredPoint], x: float, of: Callable[[MeasuredPoint], float]) -> float:
    """Alpha between points, linear in `of` them; beyond the ends the end's."""
    ordered = sorted(points, key=of)
    return float(np.interp(x, [of(point) for point in ordered], [point.alpha for point in ordered]))


def within(points: Iterable[MeasuredPoint], budget_bytes: float) -> MeasuredPoint | None:
    """Return the point of highest alpha that holds at most so many bytes."""
    affordable = [point for point in points if point.held_bytes <= budget_bytes * (1 + 1e-9)]
    return max(affordable, key=lambda point: point.alpha, default=None)


def gain(first: float, second: float) -> float:
    """Return by what share of `second` the first is more: without end if the second is nothing and the first is not."""
    return first / second - 1 if second else (math.inf if first else 0.0)


class DraftBudget(NamedTuple):
    """The best acceptance within the bytes of a joint point, of both axes together and of one alone."""

    held_bytes: float
    both: MeasuredPoint
    alone: MeasuredPoint
    reached: int  # how many of the axes can be scaled so far down alone

    @property
    def lead(self) -> ShapeDifference:
        """Of both axes together over the better of those alone."""
        return difference(self.both, self.alone)


def budgets(both: list[MeasuredPoint], *singles: list[MeasuredPoint]) -> list[DraftBudget]:
    """At the bytes of each joint point, if one axis at least reaches so low; a joint point may use fewer bytes."""
    found = []
    for size in sorted({point.held_bytes for point in both}):
        best = within(both, size)
        alone = [point for points in singles if (point := within(points, size))]
        if best and alone:
            found.append(DraftBudget(size, best, max(alone, key=lambda point: point.alpha), len(alone)))
    return found
