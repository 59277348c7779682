"""Measures cases on a checkpoint: acceptance over held-out prompts, with standard errors and what drafting costs."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

from serving.lab.self_speculation.cases import Case
from serving.lab.self_speculation.decode import DecodePlan, speculate
from serving.lab.self_speculation.draft import DraftModel
from serving.lab.self_speculation.drafts.cassandra import Cassandra, Cut
from serving.lab.self_speculation.drafts.elastic import Elastic, Treatment
from serving.lab.self_speculation.drafts.first_layers import first_layers
from serving.lab.self_speculation.pools import PoolPlan
from serving.lab.self_speculation.wanda import calibrate
from serving.lab.self_speculation.weights import ModelWeights
from serving.usage_error import UsageError

Counts = tuple[tuple[int, int], ...]
"""Of each sequence: accepted draft tokens, and steps."""


@dataclass(frozen=True)
class MeasuredPoint:
    """A case and what came of it. Standard errors are over sequences, whose steps are not independent."""

    case: Case
    alpha: float  # accepted draft tokens over offered ones
    alpha_se: float
    accepted: float  # accepted draft tokens of a step
    accepted_se: float
    sequences: int
    steps: int
    tokens: int  # of the answers
    held_bytes: float  # of the draft's weights, with its pool
    read_bytes: float  # of a draft pass, by pool: static weights and the experts that its tokens touch
    live: float  # sequences that share a pool, on average
    counts: Counts

    def record(self) -> dict[str, Any]:
        """For JSON; figures beyond their precision are cut."""
        own = {name: value for name, value in asdict(self).items() if name not in ("case", "counts")}
        return self.case.record() | {name: round(value, 5) for name, value in own.items()} | {"counts": self.counts}


class Checkpoint:
    """A model, and the targets and drafts that are made of it as they are asked for."""

    def __init__(self, weights: ModelWeights, calibration: list[list[int]]) -> None:
        self.weights = weights
        self._calibration = calibration

    @cached_property
    def elastic(self) -> Elastic:
        return Elastic(self.weights)

    @cached_property
    def cassandra(self) -> Cassandra:
        return Cassandra(self.weights, calibrate(self.weights, self._calibration))

    def pair(self, case: Case) -> tuple[ModelWeights, DraftModel]:
        """Return the target and the draft of a case."""
        if case.family == "elastic":
            return self.elastic.target, self._elastic(case)
        if case.family == "first-layers":
            return self.weights, first_layers(self.weights, case.layers)
        cut = Cut(case.pruned, case.dropped, case.kv_pruned, case.kv_dropped)
        if case.family == "cassandra-1":
            return self.cassandra.target, self.cassandra.first(cut)
        return self.cassandra.shared_target(case.pruned), self.cassandra.second(cut)

    def _elastic(self, case: Case) -> DraftModel:
        draft = _sliced(self.elastic, cast(Treatment, case.treatment), case.bits)
        if case.share == 1:
            return draft
        plan = PoolPlan(case.share, case.kind, case.batch, case.scope, case.memory)  # type: ignore[arg-type]
        return draft.throttled(plan)


@lru_cache(maxsize=1)
def _sliced(elastic: Elastic, treatment: Treatment, width: int) -> DraftModel:
    """Neighbouring cases often differ in their pool only."""
    return elastic.draft(treatment, width)


def measure(
    checkpoint: Checkpoint,
    wanted: list[Case],
    prompts: list[list[int]],
    plan: DecodePlan,
    say: Callable[[str], None] = lambda _: None,
) -> dict[Case, MeasuredPoint]:
    """Measure a point for each case, all on the same prompts."""
    points = {}
    for number, case in enumerate(wanted, 1):
        target, draft = checkpoint.pair(case)
        points[case] = point(case, target, draft, prompts, plan)
        say(f"{number}/{len(wanted)} {case}: alpha {points[case].alpha:.3f}")
    return points


def point(
    case: Case, target: ModelWeights, draft: DraftModel, prompts: list[list[int]], plan: DecodePlan
) -> MeasuredPoint:
    """Decode all prompts and count."""
    run = speculate(target, draft, prompts, plan._replace(depth=case.depth, temperature=case.temperature))
    counts = tuple((sum(answer.accepted), len(answer.accepted)) for answer in run.answers)
    alpha, error = rate(counts, case.depth)
    return MeasuredPoint(
        case,
        alpha,
        error,
        alpha * case.depth,
        error * case.depth,
        len(run.answers),
        sum(steps for _, steps in counts),
        sum(len(answer.tokens) for answer in run.answers),
        draft.held_bytes,
        draft.static_bytes + run.experts_read * draft.expert_bytes,
        run.live,
        counts,
    )


def rate(counts: Counts, depth: int) -> tuple[float, float]:
    """Return accepted over offered draft tokens, and the standard error of that ratio with sequences as clusters."""
    accepted, offered = sum(accepted for accepted, _ in counts), depth * sum(steps for _, steps in counts)
    if not offered:
        raise UsageError("no draft token was judged: all answers end at once; more prompts or tokens are needed")
    return accepted / offered, clustered(influence(counts, depth))


def influence(counts: Counts, depth: int) -> list[float]:
    """How far each sequence draws the rate away from where it is; the sum is 0."""
    offered = depth * sum(steps for _, steps in counts)
    alpha = sum(accepted for accepted, _ in counts) / offered
    return [(accepted - alpha * depth * steps) / offered for accepted, steps in counts]


def clustered(influences: list[float]) -> float:
    """Return the standard error of a rate, or of a difference of two, from what each sequence does to it."""
    count = len(influences)
    return math.sqrt(sum(value**2 for value in influences) * count / max(count - 1, 1))
