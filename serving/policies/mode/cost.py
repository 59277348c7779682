"""Asks the device model which mode is better for this very batch."""

from serving.policies.modes import EITHER, Bounds, ModeVerdict
from serving.policies.regrets import DecodeBatch


class Policy:
    """Leaves it to the costs: those of all experts that verification touches, and misses, are in them."""

    def __init__(self, bounds: Bounds) -> None:
        pass

    def judge(self, batch: DecodeBatch) -> ModeVerdict:
        return ModeVerdict(EITHER, "")

    def go_on_from(self, other: "Policy") -> None:
        """Do nothing: no batch decides about another one."""
