"""The names that were probably meant by one that there is not, as messages tell them."""

from collections.abc import Iterable

from device_model.specs.nearest_name import hint, nearest


def meant(name: object, allowed: Iterable[str]) -> str:
    """Return ` (did you mean ...?)` with the nearest of the allowed names; "" if none is near, or `name` is no text."""
    return hint(nearest(name, allowed)) if isinstance(name, str) else ""


def misspelt(name: str, given: Iterable[str]) -> str:
    """Return ` (is ... it?)` with the one of the given names that a missing one is probably meant by; "" if none is."""
    # Names that begin otherwise may well be other keys, as `to_per_s` beside `from_per_s`.
    alike = [each for each in given if each[:1] == name[:1]]
    near = nearest(name, alike)
    near = near or [each for each in alike if len(each) > 2 and name.startswith(each)]
    return f" (is `{near[0]}` it?)" if near else ""
