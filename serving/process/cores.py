"""Cores: which of a machine's processors a process may use, where several like it share the machine."""

import os
from collections.abc import Sequence


def share_of(index: int, count: int, cores: Sequence[int]) -> list[int]:
    """Return the cores of one of `count` processes that share the upper half of a machine's `cores`, as equally as
    possible; all of them if there is no core for each, or nobody to share with."""
    ours = sorted(cores)[len(cores) // 2 :]
    if count < 2 or len(ours) < count:
        return list(cores)
    place = index % count
    return ours[place * len(ours) // count : (place + 1) * len(ours) // count]


def keep_to_share(index: int, count: int) -> None:
    """Keep this process to its share of the machine's cores."""
    cores = sorted(os.sched_getaffinity(0))
    share = share_of(index, count, cores)
    if len(share) < len(cores):
        os.sched_setaffinity(0, share)
