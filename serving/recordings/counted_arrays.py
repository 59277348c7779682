"""Counted arrays: those of a file that have whole numbers from 0, checked before anything is looked up by them."""

from typing import Any

from numpy.typing import NDArray


def wrong_with(array: NDArray[Any], dimensions: int) -> str:
    """Return what is wrong with an array that should count, and what is allowed; "" if nothing is."""
    if array.ndim != dimensions:
        return f"has {array.ndim} dimensions; allowed are {dimensions}"
    if array.dtype.kind not in "iu":
        return f"is of the type {array.dtype}; allowed are whole numbers"
    return f"has {array.min()}; allowed is 0 or more" if array.size and array.min() < 0 else ""
