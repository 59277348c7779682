"""Tree choice: the width and the verify budget of a device's drafts, as they are set or as they pay best."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

from device_model.draft import Draft
from device_model.step import DraftShape
from serving.usage_error import UsageError

# What `auto` weighs: tokens of a pass, and verified tokens of a level.
WIDTHS = (1, 2, 3, 4, 6, 8, 12)
BUDGETS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0)


class TreeChoice(NamedTuple):
    """The `width` of drafts and the `verify` budget, 0 where they are not set: then they are as calibrated, or, if the
    choice is `free`, what pays best, in tokens per second or `by_energy` per joule."""

    width: int = 0
    verify: int = 0
    free: bool = False
    by_energy: bool = False

    def check(self, draft: Draft, depths: tuple[int, ...]) -> None:
        """Raise UsageError for a tree that can't be drafted to any of `depths`."""
        for depth in depths:
            try:
                self.shape(draft, depth)
            except ValueError as error:
                raise UsageError(f"`depth`, `width` and `verify` make no tree: {error}.", "verify", "width") from error

    def shape(self, draft: Draft, depth: int) -> DraftShape:
        """Return the tree of a depth, as it is set or calibrated. Raise ValueError if there is none."""
        return draft.shape_at(depth, self.width or None, self.verify or None)

    def best(self, draft: Draft, depth: int, worth: Callable[[DraftShape], float]) -> DraftShape:
        """Return the tree of a depth that is worth most, of those that what is set allows: the calibrated one, and each
        of `WIDTHS` with each of `BUDGETS`. Nothing less finds it: a chain may be better than any tree of its width or
        of its budget, and no better than one that differs in both."""
        return max(dict.fromkeys((self.shape(draft, depth), *self._trees(depth))), key=worth)

    def _trees(self, depth: int) -> Iterator[DraftShape]:
        budgets = (self.verify,) if self.verify else (max(depth, round(share * depth)) for share in BUDGETS)
        for verify, width in product(budgets, (self.width,) if self.width else WIDTHS):
            if depth <= verify <= width * depth:
                yield DraftShape(depth, width, verify)
