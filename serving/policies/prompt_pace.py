"""Prompt pace: the seconds that a device takes for a prompt by itself, computed a chunk at a time."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class Curve(NamedTuple):
    """A piecewise linear function through known points, extended beyond them."""

    points: Sequence[float]
    values: Sequence[float]

    def __call__(self, x: float) -> float:
        """Return the value at `x`."""
        right = min(max(bisect_right(self.points, x), 1), len(self.points) - 1)
        left = right - 1
        slope = (self.values[right] - self.values[left]) / (self.points[right] - self.points[left])
        return self.values[left] + slope * (x - self.points[left])


class PromptPace(NamedTuple):
    """The seconds of a chunk that begins a prompt, by its tokens, and the seconds that each of its tokens takes longer
    for each token before the chunk, which it reads."""

    chunk_s: Curve = Curve((0, 1), (0.0, 0.0))
    reading_s: float = 0.0

    def prompt_s(self, tokens: int, chunk: int) -> float:
        """Return the seconds of a prompt of so many tokens, at most `chunk` of them in a step."""
        whole, rest = divmod(tokens, chunk)
        # The i-th whole chunk reads i chunks before it.
        read = chunk * chunk * whole * (whole - 1) / 2 + rest * whole * chunk
        seconds = whole * self.chunk_s(chunk) + (self.chunk_s(rest) if rest else 0.0)
        return max(0.0, seconds + self.reading_s * read)


NO_TIME = PromptPace()
"""Prompts that take none."""


def doubling(last: int) -> list[int]:
    """Return 1, 2, 4, ... and `last`; at least two numbers."""
    return [*(1 << i for i in range(max(last - 1, 1).bit_length())), max(last, 2)]
