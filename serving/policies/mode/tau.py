"""Speculates from a batch of tau on (ELMoE-3D, Algorithm 1).

Unless the user has named a tau, it is wherever the device model finds speculating faster: at 1k context from some batch
on, but a longer context takes the pool's room in HB and with it acceptance, so that large batches soon go better
without, and at last all do. A tau that was named is kept, whatever the context. Either is left and entered by the same
hysteresis: beside a named tau what counts is the time spent on its other side.
"""

from serving.policies.hysteresis import LEAD, Hysteresis
from serving.policies.modes import DRAFTING, MANY, PLAINLY, Bounds, ModeVerdict
from serving.policies.regrets import DecodeBatch, Regret

NAMED = {True: "at least tau", False: "below tau"}
OWN = {True: "drafting is faster", False: "drafting is slower", None: "either is as fast"}
NOT_YET = ", too briefly"
# Of a tau that was named: on its wrong side each second counts as lost, and none on the right one is remembered.
NAMED_CHANGE_S, NAMED_CREDIT_S = 1.0, 0.0


class Policy:
    """SD if at least tau sequences decode, or if that is faster where no tau was named."""

    def __init__(self, bounds: Bounds) -> None:
        self._tau, self._regrets = bounds
        self._hysteresis = Hysteresis(NAMED_CHANGE_S, NAMED_CREDIT_S) if self._tau else Hysteresis()

    def judge(self, batch: DecodeBatch) -> ModeVerdict:
        regret, tokens = self._regret(batch)
        drafts = self._hysteresis.drafts(regret, batch.at_s, batch.worked_s)
        better = True if regret.plain > LEAD else False if regret.drafting > LEAD else None
        reason = NAMED[bool(better)] if self._tau else OWN[better]
        if better not in (drafts, None):
            reason += NOT_YET
        until_s = self._hysteresis.until_s(batch.at_s)
        return ModeVerdict(DRAFTING if drafts else PLAINLY, reason, tokens, until_s)

    def go_on_from(self, other: "Policy") -> None:
        """Go on in the mode of another one, which has changed as often as it may for now."""
        self._hysteresis = other._hysteresis

    def _regret(self, batch: DecodeBatch) -> tuple[Regret, int]:
        """Return the regret for a batch, and for how many tokens of each sequence it holds: on the wrong side of a
        named tau all of the time is lost."""
        if self._tau:
            return (Regret(1.0, -1.0) if batch.decoding >= self._tau else Regret(-1.0, 1.0)), MANY
        return self._regrets.of(batch), self._regrets.tokens(batch)
