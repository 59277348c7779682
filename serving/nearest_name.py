"""The name that was probably meant by one that there is not."""

from collections.abc import Iterable
from difflib import get_close_matches


def meant(name: str, allowed: Iterable[str]) -> str:
    """Return ` (did you mean ...?)` with the nearest of the allowed names; "" if none is near."""
    # Names of words that are turned round, as rate_per_s and per_s_rate, are near too.
    names = list(allowed)
    near = get_close_matches(name, names, n=1, cutoff=0.7)
    near = near or [each for each in names if sorted(each.split("_")) == sorted(name.split("_"))][:1]
    return f" (did you mean `{near[0]}`?)" if near else ""
