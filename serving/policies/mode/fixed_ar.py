"""Never speculates."""

from serving.policies.modes import PLAINLY, Bounds, ModeVerdict
from serving.policies.regrets import DecodeBatch


class Policy:
    """Decodes plainly, whatever the batch."""

    def __init__(self, bounds: Bounds) -> None:
        pass

    def judge(self, batch: DecodeBatch) -> ModeVerdict:
        return ModeVerdict(PLAINLY, "fixed")

    def go_on_from(self, other: "Policy") -> None:
        """Do nothing: no batch decides about another one."""
