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


def misspelt(name: str, given: Iterable[str]) -> str:
    """Return ` (is ... it?)` with the one of the given names that a missing one is probably meant by; "" if none is."""
    # Names that begin otherwise may well be other keys, as `to_per_s` beside `from_per_s`.
    alike = [each for each in given if each[:1] == name[:1]]
    near = get_close_matches(name, alike, n=1, cutoff=0.7)
    near = near or [each for each in alike if len(each) > 2 and (each.startswith(name) or name.startswith(each))][:1]
    return f" (is `{near[0]}` it?)" if near else ""
