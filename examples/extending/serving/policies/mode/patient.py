"""Speculates only where that saves a fifth of the time: for those who want it less often than `tau` has it."""

from serving.policies.modes import DRAFTING, PLAINLY, Bounds, ModeVerdict
from serving.policies.regrets import DecodeBatch

SHARE = 0.2


class Policy:
    """SD where the device model has it save `SHARE` of the time."""

    def __init__(self, bounds: Bounds) -> None:
        self._regrets = bounds.regrets

    def judge(self, batch: DecodeBatch) -> ModeVerdict:
        if self._regrets.of(batch).plain >= SHARE:
            return ModeVerdict(DRAFTING, "saves a fifth")
        return ModeVerdict(PLAINLY, "saves less than a fifth", self._regrets.tokens(batch))
