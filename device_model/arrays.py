"""Plain numbers and arrays over steps alike: a probe of one step takes a third of the time with plain numbers."""

from functools import reduce

import numpy as np

from device_model.step import FloatArray

Number = float | FloatArray


def most(a: Number, b: Number) -> Number:
    """Return the larger of two numbers, or of each pair."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.maximum(a, b)
    return a if a > b else b


def least(a: Number, b: Number) -> Number:
    """Return the smaller of two numbers, or of each pair."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.minimum(a, b)
    return a if a < b else b


def largest(*values: Number) -> Number:
    """Return the largest number of each step."""
    return reduce(np.maximum, values)
