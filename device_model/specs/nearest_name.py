"""The names that were probably meant by one that there is not."""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches

CUTOFF = 0.65
"""How alike (`SequenceMatcher.ratio`) a name must be that differs by more than one letter."""
SHORT = 3
"""Letters of a name up to which another letter makes another name. No fewer are taken for the beginning of one."""
MOST = 3
"""Names that are told at once."""
LONGEST = 100
"""Letters of a name that is looked at: what is longer is none, and is not compared at length."""


def nearest(name: str, allowed: Iterable[str]) -> list[str]:
    """Return the allowed names that `name` is probably meant to be: the one that is a letter off; or those that begin
    so; or the one that is like it, or has its words in another order; or those of which it is a word. None if nothing
    is near."""
    if len(name) > LONGEST:
        return []
    plain = {each: _plain(each) for each in dict.fromkeys(allowed)}
    wrong = _plain(name)
    if off := [each for each, right in plain.items() if is_a_letter_off(wrong, right)]:
        return [max(off, key=lambda each: SequenceMatcher(None, wrong, plain[each]).ratio())]
    if len(wrong) >= SHORT and (begun := [each for each in plain if plain[each].startswith(wrong)]):
        return begun[:MOST]
    if len(wrong) > SHORT and (near := get_close_matches(wrong, plain.values(), n=1, cutoff=CUTOFF)):
        return [next(each for each in plain if plain[each] == near[0])]
    words = sorted(wrong.split("-"))
    if turned := [each for each, right in plain.items() if wrong and sorted(right.split("-")) == words]:
        return turned[:1]
    return [each for each, right in plain.items() if len(wrong) > 1 and wrong in right.split("-")][:MOST]


def hint(names: Sequence[str], mark: str = "`") -> str:
    """Return ` (did you mean ...?)` with some names, each between marks; "" without any."""
    marked = [f"{mark}{each}{mark}" for each in names]
    either = " or ".join(filter(None, (", ".join(marked[:-1]), marked[-1]))) if marked else ""
    return f" (did you mean {either}?)" if marked else ""


def is_a_letter_off(wrong: str, right: str) -> bool:
    """Tell whether two names differ by no more than a letter that is missing, too many or another one, or by two that
    are turned round. Another digit makes another name, and another letter does in one that is short."""
    if min(len(wrong), len(right)) < 2 or abs(len(wrong) - len(right)) > 1:
        return wrong == right != ""
    start = next((i for i, (a, b) in enumerate(zip(wrong, right, strict=False)) if a != b), min(len(wrong), len(right)))
    rest, other = wrong[start:], right[start:]
    if len(wrong) != len(right):
        return rest[1:] == other or rest == other[1:]
    if rest[1:] == other[1:]:
        return not rest or (len(right) > SHORT and not (rest[0].isdigit() and other[0].isdigit()))
    return rest[:2] == other[:2][::-1] and rest[2:] == other[2:]


def _plain(name: str) -> str:
    """Return a name in small letters, with dashes for what stands between its words, and nothing around them."""
    return name.lower().replace("_", "-").strip("-")
