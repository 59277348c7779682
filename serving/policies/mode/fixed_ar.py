"""Never speculates."""

from serving.policies.modes import PLAINLY, Bounds, ModeVerdict
from serving.policies.regrets import DecodeBatch


class Policy:
    """Decodes plainly, whatever the batch."""

    def __init__(self, bounds: Bounds) -> None:
        pass

    def judge(self, batch: DecodeBatch) -> ModeVerdict:
        return ModeVerdict(PLAINLY, "fixed")
