"""Never speculates."""

from serving.policies.modes import PLAINLY, Bounds, ModeVerdict


class Policy:
    """Decodes plainly, whatever the batch."""

    def __init__(self, bounds: Bounds) -> None:
        pass

    def judge(self, decoding: int, drafting: bool) -> ModeVerdict:
        return ModeVerdict(PLAINLY, "fixed")
