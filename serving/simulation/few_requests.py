"""Few requests: how many must be judged before they tell whether a share of all is in time."""

from collections.abc import Sequence
from math import ceil

# If none of n requests is late, up to 3/n of all may be (with a confidence of 95 %).
RULE_OF_THREE = 3


def enough(share: float) -> int:
    """Return how many requests tell whether a share of all is in time; 0 if none is asked (`share` 0)."""
    return ceil(round(RULE_OF_THREE / (1 - share), 6)) if share else 0


def is_few(judged: int, share: float) -> bool:
    """Tell whether requests were judged (some were), but fewer than can tell whether a `share` of them is in time."""
    return 0 < judged < enough(share)


def few_judged(judged: Sequence[int], share: float, of: str) -> str:
    """Return the sentence on where too few were judged to tell of a `share`, "" if enough were everywhere; `judged`:
    how many in each of what is called `of`."""
    few = [count for count in judged if is_few(count, share)]
    if not few:
        return ""
    late = min(1.0, RULE_OF_THREE / min(few))
    return (
        f"Few requests were judged: {min(few)} where they are fewest, fewer than {enough(share)} in {len(few)} of "
        f"{len(judged)} {of}. Even if none of so few is late, {late:.1%} of all may be: a share of "
        f"{share * 100:.4g} % is not known."
    )
