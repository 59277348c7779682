"""Always speculates."""

from serving.policies.modes import DRAFTING, Bounds, ModeVerdict
from serving.policies.regrets import DecodeBatch


class Policy:
    """Speculates, whatever the batch."""

    def __init__(self, bounds: Bounds) -> None:
        pass

    def judge(self, batch: DecodeBatch) -> ModeVerdict:
        return ModeVerdict(DRAFTING, "fixed")

    def go_on_from(self, other: "Policy") -> None:
        """Do nothing: no batch decides about another one."""
