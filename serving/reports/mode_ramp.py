"""A load ramped slowly up and down through tau, and one that wavers about it, under each mode policy: a device with its
scheduler and engine, and users who each have a request under way, in virtual time."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from serving.policies.modes import POLICIES as MODES
from serving.scenario.scenario import Scenario
from serving.simulation.node import Outcome
from serving.simulation.simulator import Simulator
from serving.types import NEVER, Request, StepRecord

PROMPT_TOKENS, OUTPUT_TOKENS = 256, 512
MOST_USERS, STAGE_S = 10, 60.0
# Users who come and go about a tau of 3 to 5.
LOW, HIGH, WAVERS_S, TIMES = 2, 8, 5.0, 36
# A request has so much less, or more, than the tokens of one on average, drawn evenly: no two stay in step.
SPREAD = 0.5
# The same load with other lengths, and other drafts accepted. Of stages of 40 s a fixed mode, too, has 0.3 to 1.2 %
# more tokens on the way down, as who is one too many leaves late, and 0.2 to 0.6 % more or fewer by chance (the
# standard deviation of one seed).
SEEDS = (0, 1, 2)
MINUTE_S = 60.0


class Stage(NamedTuple):
    """So many users for so many emulated seconds."""

    users: int
    seconds: float


class StageFigures(NamedTuple):
    """What a stage came to: its users, the instant at which it began, output tokens per second, the share of decoding
    time in SD mode."""

    users: int
    begins_s: float
    tokens_per_s: float
    sd_share: float


class LoadRun(NamedTuple):
    """The stages of a load, and the instants at which the device changed its mode."""

    stages: list[StageFigures]
    changes_s: list[float]

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second of stages of equal length."""
        return float(np.mean([stage.tokens_per_s for stage in self.stages]))

    @property
    def changes_a_minute(self) -> int:
        """The most changes of mode in any minute."""
        changes_s = self.changes_s
        return max((sum(0 <= at_s - since_s < MINUTE_S for at_s in changes_s) for since_s in changes_s), default=0)


def up_and_down(most: int, seconds: float) -> list[Stage]:
    """Return the stages of a ramp from one user to `most` and back to one."""
    return [Stage(users, seconds) for users in (*range(1, most + 1), *range(most, 0, -1))]


def wavering(low: int, high: int, seconds: float, times: int) -> list[Stage]:
    """Return stages of `low` and `high` users in turn, `times` of each."""
    return [Stage(users, seconds) for _ in range(times) for users in (low, high)]


RAMP, WAVERING = "ramp", "wavering"
LOADS = {RAMP: up_and_down(MOST_USERS, STAGE_S), WAVERING: wavering(LOW, HIGH, WAVERS_S, TIMES)}


def run_load(
    scenario: Scenario, stages: Iterable[Stage], prompt_tokens: int, output_tokens: int, seed: int = 0
) -> LoadRun:
    """Serve users, each of whom sends another request when the last one has ended, on the scenario's device; a request
    has `output_tokens` on average. Raise what `Simulator` raises."""
    stages = list(stages)
    crowd = Crowd(Simulator(scenario), prompt_tokens, output_tokens, seed)
    for stage in stages:
        crowd.serve(stage)
    crowd.end()
    return LoadRun(list(crowd.figures(stages)), crowd.changes_s())


class Crowd:
    """Users before a simulated device. As many users have the same requests on the way up and on the way down: those of
    a stage follow from the seed, from its users, and from how often two stages had as many."""

    def __init__(self, simulated: Simulator, prompt_tokens: int, output_tokens: int, seed: int) -> None:
        self._simulated, self._prompt, self._output = simulated, prompt_tokens, output_tokens
        self._seed, self._had = seed, Counter[int]()
        self._at_s, self._busy = 0.0, 0
        self._outcomes: list[Outcome] = []

    def serve(self, stage: Stage) -> None:
        """Serve the users of a stage. Who is one too many leaves once his request has ended."""
        rng = np.random.default_rng((self._seed, stage.users, self._had[stage.users] // 2))
        self._had[stage.users] += 1
        self._ask(stage.users, self._at_s, rng)
        self._at_s += stage.seconds
        while ended := self._simulated.next_end(self._at_s):
            self._busy -= 1
            self._ask(stage.users, ended.at_s, rng)

    def end(self) -> None:
        """Serve who is left, after the last stage: of a request that has not ended the simulator tells one token."""
        while self._simulated.next_end(NEVER):
            pass

    def figures(self, stages: list[Stage]) -> Iterator[StageFigures]:
        """Yield what each stage came to."""
        tokens_s = np.sort(np.concatenate([each.tokens_s for each in self._outcomes if each.first_s < NEVER]))
        begins_s = 0.0
        for users, seconds in stages:
            first, last = np.searchsorted(tokens_s, [begins_s, begins_s + seconds])
            within = [each for each in self._decoding() if begins_s <= each.start_s < begins_s + seconds]
            drafting_s = sum(each.latency_s for each in within if each.mode == "sd")
            share = drafting_s / (sum(each.latency_s for each in within) or 1.0)
            yield StageFigures(users, begins_s, float(last - first) / seconds, share)
            begins_s += seconds

    def changes_s(self) -> list[float]:
        """Return the instants of changes of the mode, up to the end of the last stage."""
        return [
            later.start_s
            for one, later in pairwise(self._decoding())
            if one.mode != later.mode and later.start_s < self._at_s
        ]

    def _decoding(self) -> list[StepRecord]:
        return [each for each in self._simulated.nodes[0].records if each.phase != "prefill"]

    def _ask(self, users: int, at_s: float, rng: np.random.Generator) -> None:
        while self._busy < users:
            tokens = max(1, round(self._output * (1 + SPREAD * rng.uniform(-1, 1))))
            id, seed = str(len(self._outcomes)), int(rng.integers(2**31))
            self._outcomes.append(self._simulated.submit(Request(id, at_s, self._prompt, tokens, seed=seed)))
            self._busy += 1


def mean_stages(runs: list[LoadRun]) -> list[StageFigures]:
    """Return the stages of a load that was run several times, with the means of what they came to."""
    return [
        same[0]._replace(
            tokens_per_s=float(np.mean([each.tokens_per_s for each in same])),
            sd_share=float(np.mean([each.sd_share for each in same])),
        )
        for same in zip(*(run.stages for run in runs), strict=True)
    ]


def ramp_rows(scenario: Scenario, hardware: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each stage of the ramp and of the load that wavers, under each mode policy: means over `SEEDS`,
    and the most changes of mode that one of them has."""
    for policy in MODES:
        one = dataclasses.replace(scenario, hardware=hardware, mode=policy, devices=1)
        for load, stages in LOADS.items():
            runs = [run_load(one, stages, PROMPT_TOKENS, OUTPUT_TOKENS, seed) for seed in SEEDS]
            whole = {
                "changes": max(len(run.changes_s) for run in runs),
                "changes_a_minute": max(run.changes_a_minute for run in runs),
            }
            told = {"hardware": hardware, "load": load, "policy": policy} | whole
            yield from (told | stage._asdict() for stage in mean_stages(runs))
