"""Asks the device model which mode is better for this very batch."""

from serving.policies.modes import EITHER, Bounds, ModeVerdict
from serving.policies.regrets import DecodeBatch

# A plain batch is weighed anew after so many steps: its contexts grow, and the KV cache takes room from the drafts.
WEIGH_STEPS = 64


class Policy:
    """Leaves it to the costs: those of all experts that verification touches, and misses, are in them."""

    def __init__(self, bounds: Bounds) -> None:
        pass

    def judge(self, batch: DecodeBatch) -> ModeVerdict:
        return ModeVerdict(EITHER, "", WEIGH_STEPS)

    def go_on_from(self, other: "Policy") -> None:
        """Do nothing: no batch decides about another one."""
