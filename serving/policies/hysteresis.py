"""Hysteresis of the mode, by regret summed over time: a mode is left once a change would have paid.

What the present mode loses against the other one beyond `SLACK` adds up, in seconds, and what it wins is taken off, but
for no more than `CREDIT_S` in advance (the CUSUM of Page, Biometrika 1954, between two bounds). At `CHANGE_S` the mode
is changed, if the other one leads by `LEAD` just then. So a batch that wavers stays in the mode that is better on the
whole, at a tau of 2 as at one of 20; a great gain is taken soon, a small one when it has lasted. One of 3 % (`LEAD`) is
left, as a device begins plainly unless drafts win by more: the device model's own errors are as large. A band of
batches about tau does neither: below a tau of 8 it has no room, and above it holds a mode that may be far slower for as
long as the load likes. Nor does a time that each mode must last: it locks a burst into the wrong one.

What a change costs, no device model says. HB holds slices of experts for drafting and whole ones for plain decoding,
and to fill 8 GiB of it over LPDDR takes 85 ms (ELMoE-3D, Table 1). `CHANGE_S` is nine times that. It is what a ramp
loses where it passes tau, one way or the other: at 3 s, and with 3 % left out of the sum, a load of 1 to 4 users
that stay for 40 s each had 2 to 3 % fewer tokens on its way up than on its way down. `CREDIT_S` is for loads that
waver: prompts favour drafts and the steps between them may not, and plain decoding makes a crowd of what drafting would
have ended in time. Without it the worked studies at 4 GB, with 1 s of `CHANGE_S`, take 3 % longer than SD.

What must be lost grows `FACTOR`-fold with each change of the last minute, so that no minute has more than four: from
the first of five to the last 0.75 s x (2.7 + 2.7^2 + 2.7^3 + 2.7^4) = 62 s would have to be lost, and no second loses
more than itself.
"""

from collections import deque

from serving.policies.regrets import Regret
from serving.types import NEVER

CHANGE_S, CREDIT_S = 0.75, 1.5
FACTOR, WINDOW_S = 2.7, 60.0
SLACK, LEAD = 0.01, 0.03


class Hysteresis:
    """The mode of a device. The first one is chosen freely, later ones after `change_s` lost seconds, and up to
    `credit_s` that were won before."""

    def __init__(self, change_s: float = CHANGE_S, credit_s: float = CREDIT_S) -> None:
        self._least_s, self._credit_s = change_s, credit_s
        self._drafting: bool | None = None
        self._regret, self._lost_s = Regret(0.0, 0.0), 0.0
        self._changes_s = deque[float]()

    def drafts(self, regret: Regret, at_s: float, worked_s: float) -> bool:
        """Tell whether to draft from emulated instant `at_s` on, where the modes have that `regret`. The device has
        worked for `worked_s` since it was told last."""
        if self._drafting is None:
            self._drafting = regret.plain > LEAD
        lost_s = (self._of_present(self._regret) - SLACK) * worked_s
        self._lost_s = max(-self._credit_s, self._lost_s + lost_s)
        self._regret = regret
        if self._of_present(regret) > LEAD and self._lost_s >= self._change_s(at_s):
            self._drafting, self._lost_s = not self._drafting, 0.0
            self._changes_s.append(at_s)
        return self._drafting

    def until_s(self, at_s: float) -> float:
        """Return the emulated instant until which the mode stays, if the device works all the time from `at_s` on, and
        the regret stays as it was told last; `NEVER` if it stays for good."""
        loses = self._of_present(self._regret)
        if loses <= LEAD:
            return NEVER
        left_s = (self._change_s(at_s) - self._lost_s) / (loses - SLACK)
        # With the first of the last minute's changes out of sight, less must be lost.
        return min(at_s + left_s, self._changes_s[0] + WINDOW_S if self._changes_s else NEVER)

    def _of_present(self, regret: Regret) -> float:
        return regret.drafting if self._drafting else regret.plain

    def _change_s(self, at_s: float) -> float:
        """Return the seconds that must be lost before a change at `at_s`."""
        while self._changes_s and self._changes_s[0] <= at_s - WINDOW_S:
            self._changes_s.popleft()
        return self._least_s * FACTOR ** len(self._changes_s)
