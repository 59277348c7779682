"""AR or SD, and how deep: a mode policy says what is allowed, the costs of what it allows say what is done."""

from enum import Enum, auto
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from serving.policies.prompt_load import PromptMeter
from serving.policies.regrets import DecodeBatch, Regret, Regrets
from serving.policies.step_option import PLAIN, StepOption
from serving.types import NEVER

POLICIES = tuple(sorted(path.stem.replace("_", "-") for path in (Path(__file__).parent / "mode").glob("[a-z]*.py")))
"""The mode policies: the files of `mode/`."""

OBJECTIVES = SPEED, ENERGY = ("speed", "energy")
"""More tokens per second, or per joule."""

# Another mode must be better by this much to be worth the change; what is foregone is no more than that.
MARGIN = 0.02
MANY = 2**31
"""Tokens: as many as a sequence has."""
# Several ways are weighed anew after so many tokens of each sequence: its context grows, and the KV cache takes room
# from the drafts.
WEIGH_TOKENS = 64


class Mode(Enum):
    """The modes that a policy allows."""

    PLAINLY = auto()
    DRAFTING = auto()
    EITHER = auto()


PLAINLY, DRAFTING, EITHER = Mode


class ModeVerdict(NamedTuple):
    """The mode that a policy allows, the reason, and for how many `tokens` of each sequence that holds, and until which
    emulated instant, if the batch stays as it is."""

    mode: Mode
    reason: str
    tokens: int = MANY
    until_s: float = NEVER


class NoRegrets:
    """The regrets of a device without a draft: none."""

    def of(self, batch: DecodeBatch) -> Regret:
        """Return that nothing is lost."""
        return Regret(0.0, 0.0)

    def tokens(self, batch: DecodeBatch) -> int:
        """Return as many tokens as there may be."""
        return MANY

    def token_cost(self, batch: DecodeBatch, by_energy: bool) -> float | None:
        """Return that nobody knows."""
        return None


class Bounds(NamedTuple):
    """The inputs of a mode policy: `tau`, the smallest batch that speculates (0: none was named), and what the device
    model says of drafting."""

    tau: int = 0
    regrets: Regrets = NoRegrets()


class ModePolicy(Protocol):
    """Judges a batch of which some sequences decode, each time that one is planned."""

    def judge(self, batch: DecodeBatch) -> ModeVerdict: ...

    def go_on_from(self, other: Any) -> None: ...


class Modes:
    """Chooses among the options of a step. It remembers whether the last step drafted, and since when it goes on.

    `depths` are those that a draft may have; none for a device that has no draft.
    """

    def __init__(self, policy: ModePolicy, depths: tuple[int, ...], regrets: Regrets, objective: str = SPEED) -> None:
        self._policy, self._depths, self._regrets = policy, depths, regrets
        self._by_energy = objective == ENERGY
        self._drafting = False
        # What a token costs later, where a step beside prompts may go several ways.
        self._token_cost: float | None = None
        # The last batch that was judged: when it began, and in all of its steps the time, and the tokens of prompts and
        # of decoding.
        self._began_s = self._planned_s = self._planned_tokens = 0.0
        self._planned_prompts = 0
        self._worked_s, self._prompts = 0.0, PromptMeter()

    @staticmethod
    def of(name: str, depths: tuple[int, ...], bounds: Bounds | None = None, objective: str = SPEED) -> "Modes":
        """Return the mode policy of a name, for a device that drafts to any of `depths`."""
        module = import_module(f"serving.policies.mode.{name.replace('-', '_')}")
        bounds = bounds or Bounds()
        return Modes(module.Policy(bounds), depths, bounds.regrets, objective)

    def go_on_from(self, other: "Modes") -> None:
        """Go on where other modes of the same policy were, as the device's condition has changed: in their mode, with
        what they know of the crowd, and of their changes of mode."""
        self._policy.go_on_from(other._policy)
        self._drafting, self._prompts = other._drafting, other._prompts
        self._began_s, self._planned_s, self._worked_s = other._began_s, other._planned_s, other._worked_s
        self._planned_tokens, self._planned_prompts = other._planned_tokens, other._planned_prompts

    def candidates(self, batch: DecodeBatch) -> tuple[tuple[int, ...], ModeVerdict]:
        """Return the depths that are worth weighing for a batch, and the policy's verdict."""
        # A device that was idle meanwhile has worked no longer than the steps of its last batch.
        worked_s = min(batch.at_s - self._began_s, self._planned_s)
        self._worked_s += worked_s
        if self._planned_s:
            part = worked_s / self._planned_s
            self._prompts.note(worked_s, round(part * self._planned_prompts), part * self._planned_tokens)
        self._began_s, self._planned_s, self._planned_prompts = batch.at_s, 0.0, batch.prompt_tokens
        if not batch.decoding:
            return (PLAIN,), ModeVerdict(PLAINLY, "nothing decodes")
        if not self._depths:
            return (PLAIN,), ModeVerdict(PLAINLY, "no draft")
        load = self._prompts.load(batch.decoding, batch.prompt_tokens, batch.crowd, self._drafting)
        batch = batch._replace(worked_s=self._worked_s, load=load)
        verdict = self._policy.judge(batch)
        self._worked_s = 0.0
        either = {PLAINLY: (PLAIN,), DRAFTING: self._depths, EITHER: (PLAIN, *self._depths)}
        depths = either[verdict.mode]
        if len(depths) > 1:
            verdict = verdict._replace(tokens=min(verdict.tokens, WEIGH_TOKENS))
        asks = batch.prompt_tokens and len(depths) > 1
        self._token_cost = self._regrets.token_cost(batch, self._by_energy) if asks else None
        return depths, verdict

    def choose(self, step_options: list[StepOption], verdict: ModeVerdict) -> tuple[StepOption, str]:
        """Return the way to go, and why. A batch in which nothing decodes leaves the mode as it is."""
        most = max(option.tokens for option in step_options)
        worths = [(option.worth(self._by_energy, self._token_cost, most), option) for option in step_options]
        best, reason = max(worths, key=itemgetter(0))[1], verdict.reason
        if verdict.mode is EITHER and len(step_options) > 1:
            best, reason = self._weighed(worths)
        if best.tokens:
            self._drafting, self._planned_s = best.depth != PLAIN, float(best.costs.latency_s.sum())
            self._planned_tokens = best.tokens * len(best.costs.latency_s)
        return best, reason

    def go_on(self, option: StepOption) -> None:
        """Take note that another step follows by the last verdict, one that drafts."""
        self._planned_s += option.step_s
        self._planned_tokens += option.tokens

    def _weighed(self, worths: list[tuple[float, StepOption]]) -> tuple[StepOption, str]:
        """Return the best of all options, unless the best of the present mode is as good but for a little."""
        most, best = max(worths, key=itemgetter(0))
        present = [each for each in worths if (each[1].depth != PLAIN) == self._drafting]
        its, stay = max(present, key=itemgetter(0), default=(most, best))
        if stay.depth != best.depth and its >= (1 - MARGIN) * most:
            return stay, "as good"
        return best, "more tokens per joule" if self._by_energy else "more tokens per second"
