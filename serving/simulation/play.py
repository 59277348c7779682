"""Play a workload in virtual time. Requests that follow others (turns of sessions, users of a closed loop) arrive when
these have ended, by the emulated clock.

    outcomes, records = play(load_workload(Path("examples/workloads/chat-day.toml"), requests=200), Scenario(devices=2))
"""

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from serving.scenario.scenario import Scenario
from serving.scenario.slo import SloClass
from serving.simulation.node import Outcome, VirtualObserver
from serving.simulation.simulator import Simulator
from serving.simulation.virtual_admission import forecasts
from serving.types import NEVER, StepRecord
from serving.workload import Ask, Source
from serving.workload.source import AFTER_FAILURE_S
from serving.workload.spec import Workload
from serving.workload.virtual import request_of


def play(
    workload: Workload, scenario: Scenario, leaps: bool = True, observer: VirtualObserver | None = None
) -> tuple[list[Outcome], list[StepRecord]]:
    """Play a workload on a scenario. Return the outcomes by arrival and the steps by device; both empty if there is an
    `observer`, which hears of them. `leaps` as in `Simulator`.

    Raise `WorkloadError`, and what `Simulator` raises.
    """
    return play_from(Source(workload), workload, scenario, leaps, observer)


def play_from(
    source: Source, workload: Workload, scenario: Scenario, leaps: bool = True, observer: VirtualObserver | None = None
) -> tuple[list[Outcome], list[StepRecord]]:
    """Play a workload as `play` does, taking its requests from `source`."""
    may_name = workload.trace is not None and workload.trace.source.may_name_classes
    asked = set(scenario.slo) if may_name else set(workload.slo.names)
    simulated = Simulator(scenario, leaps, observer, forecasts(scenario, asked))
    # Who names no class has that which the scenario says.
    unnamed = {"": scenario.slo[scenario.default_slo]} if scenario.default_slo else {}
    classes = {**scenario.slo, **unnamed}
    block_tokens = scenario.block_tokens if scenario.prefix_caching else 0
    return Play(source, simulated, classes, block_tokens, keep=observer is None).run()


class FollowUp(NamedTuple):
    """A request that follows one that has ended, in the order of arrivals, sessions and turns."""

    arrival_s: float
    session: int
    turn: int
    ask: Ask


class Play:
    """One run: the requests to come, and those under way."""

    def __init__(
        self, source: Source, simulated: Simulator, classes: dict[str, SloClass], block_tokens: int, keep: bool
    ) -> None:
        self._source, self._simulated = source, simulated
        self._classes, self._block_tokens = classes, block_tokens
        self._coming: Iterator[Ask] = iter(source)
        self._next: Ask | None = next(self._coming, None)
        self._following: list[FollowUp] = []
        self._under_way: dict[str, Ask] = {}
        self._outcomes: list[Outcome] = []
        self._keep = keep

    def run(self) -> tuple[list[Outcome], list[StepRecord]]:
        """Run to the end; return outcomes by arrival and steps by device."""
        while True:
            due_s = self._due_s
            ended = self._simulated.next_end(due_s)
            if ended is not None:
                self._follow(self._under_way.pop(ended.request.id), ended.at_s)
            elif due_s < NEVER:
                self._submit(self._take(due_s))
            else:
                return self._outcomes, [record for node in self._simulated.nodes for record in node.records]

    @property
    def _due_s(self) -> float:
        """The arrival of the next request known; endless if there is none."""
        following_s = self._following[0].arrival_s if self._following else NEVER
        return min(following_s, self._next.arrival_s if self._next is not None else NEVER)

    def _take(self, due_s: float) -> Ask:
        if self._following and self._following[0].arrival_s <= due_s:
            return heapq.heappop(self._following).ask
        ask, self._next = self._next, next(self._coming, None)
        assert ask is not None
        return ask

    def _submit(self, ask: Ask) -> None:
        request = request_of(ask, self._classes, self._block_tokens, self._source.seed)
        outcome = self._simulated.submit(request)
        if self._keep:
            self._outcomes.append(outcome)
        if outcome.refused:
            self._follow(ask, request.arrival_s + AFTER_FAILURE_S)
        else:
            self._under_way[request.id] = ask

    def _follow(self, ask: Ask, at_s: float) -> None:
        """Schedule the requests that follow one that ended at `at_s`."""
        follower = self._source.next_after(ask, at_s)
        if follower is not None:
            heapq.heappush(self._following, FollowUp(follower.arrival_s, follower.session, follower.turn, follower))
