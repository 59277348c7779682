"""Attention on PUs: heads are shared out over groups of neighbours, the context over the PUs of a group.

Stratum (arXiv 2510.05245, 4.2, Fig. 10): a group works on two heads at least, so that the softmax of one hides behind
the products of the other. The KV cache is split along the sequence, and new tokens go to the PUs in turn, so that the
PUs of a group have equally much.
"""

from functools import lru_cache
from math import ceil, isqrt
from typing import NamedTuple

# Local maxima and sums, exponentials, scaling: each passes over all scores of a head (Fig. 10c).
SOFTMAX_STEPS = 3
# So that one's softmax hides behind the other's products.
INTERLEAVED = 2


class HeadGroups(NamedTuple):
    """Groups of PUs, of equal size; `heads` that the fullest works on; and the share of the PUs' time that is used."""

    groups: int
    heads: int
    busy_share: float

    @property
    def hides_softmax(self) -> bool:
        return self.heads >= INTERLEAVED


@lru_cache(maxsize=4096)
def head_groups(heads: int, pus: int) -> HeadGroups:
    """Return the groups for KV heads of all sequences together: of those that hide the softmax the ones that are
    busiest, then the most. A single head has all PUs to itself, and its softmax shows.
    """
    small = [groups for groups in range(1, isqrt(pus) + 1) if pus % groups == 0]
    divisors = sorted({*small, *(pus // groups for groups in small)})
    choices = [HeadGroups(groups, ceil(heads / groups), heads / (groups * ceil(heads / groups))) for groups in divisors]
    hiding = [choice for choice in choices if choice.hides_softmax] or choices[:1]
    return max(hiding, key=lambda choice: (choice.busy_share, choice.groups))
