"""AR or SD, and how deep: a mode policy says what is allowed, the costs of what it allows say what is done."""

from enum import Enum, auto
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

from serving.policies.step_options import PLAIN, StepOption

POLICIES = tuple(sorted(path.stem.replace("_", "-") for path in (Path(__file__).parent / "mode").glob("[a-z]*.py")))
"""The mode policies: the files of `mode/`."""

OBJECTIVES = SPEED, ENERGY = ("speed", "energy")
"""More tokens per second, or per joule."""

# Another mode must be better by this much to be worth the change; what is foregone is no more than that.
MARGIN = 0.02
# A plain batch is weighed anew after so many steps: its contexts grow, and the KV cache takes room from the drafts.
WEIGH_STEPS = 64


class Mode(Enum):
    """The modes that a policy allows."""

    PLAINLY = auto()
    DRAFTING = auto()
    EITHER = auto()


PLAINLY, DRAFTING, EITHER = Mode


class ModeVerdict(NamedTuple):
    """The mode that a policy allows, and the reason."""

    mode: Mode
    reason: str


class Bounds(NamedTuple):
    """The inputs of a mode policy: `tau`, the smallest batch that speculates."""

    tau: int


class ModePolicy(Protocol):
    """Judges a batch of which `decoding` sequences decode, and whose last step was `drafting` or not."""

    def judge(self, decoding: int, drafting: bool) -> ModeVerdict: ...


class Modes:
    """Chooses among the options of a step. It remembers one thing: whether the last step drafted.

    `depths` are those that a draft may have; none for a device that has no draft.
    """

    def __init__(self, policy: ModePolicy, depths: tuple[int, ...], objective: str = SPEED) -> None:
        self._policy, self._depths, self._objective = policy, depths, objective
        self._drafting = False

    @staticmethod
    def of(name: str, depths: tuple[int, ...], tau: int = 1, objective: str = SPEED) -> "Modes":
        """Return the mode policy of a name, for a device that drafts to any of `depths`."""
        module = import_module(f"serving.policies.mode.{name.replace('-', '_')}")
        return Modes(module.Policy(Bounds(tau)), depths, objective)

    def candidates(self, decoding: int) -> tuple[tuple[int, ...], ModeVerdict]:
        """Return the depths that are worth weighing for a batch of which so many decode, and the policy's verdict."""
        if not decoding:
            return (PLAIN,), ModeVerdict(PLAINLY, "nothing decodes")
        if not self._depths:
            return (PLAIN,), ModeVerdict(PLAINLY, "no draft")
        verdict = self._policy.judge(decoding, self._drafting)
        either = {PLAINLY: (PLAIN,), DRAFTING: self._depths, EITHER: (PLAIN, *self._depths)}
        return either[verdict.mode], verdict

    def steps(self, verdict: ModeVerdict, horizon: int) -> int:
        """For how many steps a plain batch need not be weighed again."""
        return min(horizon, WEIGH_STEPS) if verdict.mode is EITHER else horizon

    def choose(self, step_options: list[StepOption], verdict: ModeVerdict) -> tuple[StepOption, str]:
        """Return the way to go, and why. A batch in which nothing decodes leaves the mode as it is."""
        best = max(step_options, key=self._worth)
        reason = verdict.reason
        if verdict.mode is EITHER and len(step_options) > 1:
            best, reason = self._weighed(step_options, best)
        if best.tokens:
            self._drafting = best.depth != PLAIN
        return best, reason

    def _weighed(self, step_options: list[StepOption], best: StepOption) -> tuple[StepOption, str]:
        """Return the best of all options, unless the best of the present mode is as good but for a little."""
        present = [option for option in step_options if (option.depth != PLAIN) == self._drafting]
        stay = max(present, key=self._worth, default=best)
        if stay.depth != best.depth and self._worth(stay) >= (1 - MARGIN) * self._worth(best):
            return stay, "as good"
        return best, "more tokens per second" if self._objective == SPEED else "more tokens per joule"

    def _worth(self, option: StepOption) -> float:
        return option.tokens_per_s if self._objective == SPEED else option.tokens_per_j
