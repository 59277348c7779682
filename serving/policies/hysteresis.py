"""Hysteresis of the mode, by regret summed over time: a mode is left once a change would have paid.

While the other mode is better, what the present one loses beyond `SLACK` adds up, in seconds; while it is not, the sum
falls, to 0 at least (the CUSUM of Page, Biometrika 1954). So a batch that wavers stays in the mode that is better on
the whole, at a tau of 2 as at one of 20; a great gain is taken soon, a small one when it has lasted, and one of 3 % is
left, as a device begins plainly unless drafts win by more: the device model's own errors are as large. A band of
batches about tau does neither: below a tau of 8 it has no room, and above it holds a mode that may be far slower for as
long as the load likes. Nor does a time that each mode must last: it locks a burst into the wrong one.

What a change costs, no device model says. HB holds slices of experts for drafting and whole ones for plain decoding,
and to fill 8 GiB of it over LPDDR takes 85 ms (ELMoE-3D, Table 1). `CHANGE_S` is 35 times that: prompts favour drafts,
and the steps between them may not, so that a mode has to be judged over several; with a third of it the worked studies
at 4 GB lose 2 to 4 % to SD. It grows `FACTOR`-fold with each change of the last minute, so that no minute has more than
four: from the first of five to the last even the 1 s of a tau that a user has named, and judged by that, would mean
that 1 s x (2.5 + 2.5^2 + 2.5^3 + 2.5^4) = 63 s were lost, and no second loses more than itself.
"""

from collections import deque

from serving.policies.regrets import Regret

CHANGE_S = 3.0
NAMED_CHANGE_S = 1.0
FACTOR = 2.5
WINDOW_S = 60.0
SLACK = 0.03


class Hysteresis:
    """The mode of a device. The first one is chosen freely, later ones after `change_s` lost seconds."""

    def __init__(self, change_s: float = CHANGE_S) -> None:
        self._least_s = change_s
        self._drafting: bool | None = None
        self._regret, self._lost_s = Regret(0.0, 0.0), 0.0
        self._changes_s = deque[float]()

    def drafts(self, regret: Regret, at_s: float, worked_s: float) -> bool:
        """Tell whether to draft from emulated instant `at_s` on, where the modes have that `regret`. The device has
        worked for `worked_s` since it was told last."""
        if self._drafting is None:
            self._drafting = regret.plain > SLACK
        self._lost_s = max(0.0, self._lost_s + (self._of_present(self._regret) - SLACK) * worked_s)
        self._regret = regret
        if self._of_present(regret) > SLACK and self._lost_s >= self._change_s(at_s):
            self._drafting, self._lost_s = not self._drafting, 0.0
            self._changes_s.append(at_s)
        return self._drafting

    def _of_present(self, regret: Regret) -> float:
        return regret.drafting if self._drafting else regret.plain

    def _change_s(self, at_s: float) -> float:
        """Return the seconds that must be lost before a change at `at_s`."""
        while self._changes_s and self._changes_s[0] <= at_s - WINDOW_S:
            self._changes_s.popleft()
        return self._least_s * FACTOR ** len(self._changes_s)
