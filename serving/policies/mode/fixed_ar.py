"""Never speculates."""

from serving.policies.modes import PLAINLY, Bounds, Verdict


class Policy:
    """Decodes plainly, whatever the batch."""

    def __init__(self, bounds: Bounds) -> None:
        pass

    def judge(self, decoding: int, drafting: bool) -> Verdict:
        return Verdict(PLAINLY, "fixed")
