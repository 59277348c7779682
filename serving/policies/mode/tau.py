"""Speculates from a batch of tau on (ELMoE-3D, Algorithm 1).

A batch that wavers about tau would change its mode at every step. So one that speculates goes on until it is clearly
below: by a quarter of tau, and at least one.
"""

from serving.policies.modes import DRAFTING, PLAINLY, Bounds, ModeVerdict

BAND = 4  # of tau is one of so many parts


class Policy:
    """SD if at least tau sequences decode."""

    def __init__(self, bounds: Bounds) -> None:
        self._tau = bounds.tau
        self._leave = bounds.tau - max(1, bounds.tau // BAND)

    def judge(self, decoding: int, drafting: bool) -> ModeVerdict:
        if decoding >= self._tau:
            return ModeVerdict(DRAFTING, "at least tau")
        if drafting and decoding > self._leave:
            return ModeVerdict(DRAFTING, "just below tau")
        return ModeVerdict(PLAINLY, "below tau")
