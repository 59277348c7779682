"""Attention on PUs: heads are shared out over groups of neighbours, the context over the PUs of a group.

Stratum (arXiv 2510.05245, 4.2, Fig. 10): a group's PUs are neighbours on a chip's ring, and it works on two heads at
least, so that the softmax of one hides behind the products of the other. The KV cache is split along the sequence,
and new tokens go to the PUs in turn, so that the PUs of a group have equally much.
"""

from functools import lru_cache
from math import ceil
from typing import NamedTuple

# Local maxima and sums, exponentials, scaling: each passes over all scores of a head (Fig. 10c).
SOFTMAX_STEPS = 3
# So that one's softmax hides behind the other's products.
INTERLEAVED = 2


class HeadGroups(NamedTuple):
    """Groups of PUs, of equal size; `heads` that the fullest works on; and the share of the PUs' time that is used, of
    those of idle groups too."""

    groups: int
    heads: int
    busy_share: float

    @property
    def hides_softmax(self) -> bool:
        return self.heads >= INTERLEAVED


@lru_cache(maxsize=4096)
def head_groups(heads: int, chips: int, pus: int) -> HeadGroups:
    """Return the groups for KV heads of all sequences together, on chips of so many PUs each: of those that hide the
    softmax the ones that are busiest, then the most. A single head has a chip to itself, and its softmax shows.
    """
    choices = (_shared(heads, chips * each) for each in range(1, pus + 1) if pus % each == 0)
    return max(choices, key=lambda choice: (choice.busy_share, choice.groups))


def _shared(heads: int, groups: int) -> HeadGroups:
    each = max(ceil(heads / groups), min(heads, INTERLEAVED))
    return HeadGroups(groups, each, heads / (groups * each))
