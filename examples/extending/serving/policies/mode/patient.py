"""Speculates from twice tau on: for those who want fewer changes of mode than `tau` makes."""

from serving.policies.modes import DRAFTING, PLAINLY, Bounds, ModeVerdict


class Policy:
    """SD if at least twice tau sequences decode."""

    def __init__(self, bounds: Bounds) -> None:
        self._from = 2 * bounds.tau

    def judge(self, decoding: int, drafting: bool) -> ModeVerdict:
        if decoding >= self._from:
            return ModeVerdict(DRAFTING, "at least twice tau")
        return ModeVerdict(PLAINLY, "below twice tau")
