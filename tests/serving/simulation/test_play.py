"""Do users in virtual time wait for their answers, think, and come back, and always in the same way?"""

from itertools import pairwise
from pathlib import Path

import pytest

from serving.scenario.scenario import Scenario
from serving.simulation.node import Outcome, VirtualObserver
from serving.simulation.play import play
from serving.types import StepRecord
from serving.workload.spec import Workload, load_workload, workload_of
from serving.workload.table import WorkloadTable

EXAMPLES = Path(__file__).parents[3] / "examples" / "workloads"


def workload(**tables: object) -> Workload:
    return workload_of(WorkloadTable({"prompt": 60, "output": 30} | tables, None))


def most_at_once(outcomes: list[Outcome]) -> int:
    edges = sorted(
        edge for each in outcomes for edge in ((each.request.arrival_s, 1), (each.last_s, -1))
    )  # who leaves at an instant leaves before whoever comes then
    level = highest = 0
    for _, change in edges:
        level += change
        highest = max(highest, level)
    return highest


@pytest.mark.parametrize("devices", [1, 3])
def test_a_closed_loop_never_has_more_requests_than_users(devices: int) -> None:
    users = workload(arrivals={"kind": "closed", "users": 5}, requests=60)
    outcomes, _ = play(users, Scenario(devices=devices))
    assert len(outcomes) == 60 and all(outcome.tokens == 30 for outcome in outcomes)
    assert most_at_once(outcomes) == 5


def test_a_turn_comes_when_the_last_was_answered_and_its_user_has_thought() -> None:
    sessions = {"turns": 4, "think_s": 2}
    chat = workload(arrivals={"kind": "poisson", "rate_per_s": 2}, sessions=sessions, requests=80)
    outcomes, records = play(chat, Scenario(devices=2, router="prefix-affine"))
    by_session: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_session.setdefault(outcome.request.id.partition("-")[0], []).append(outcome)
    assert len(by_session) == 20
    for turns in by_session.values():
        for before, after in pairwise(turns):
            assert after.request.arrival_s == pytest.approx(before.last_s + 2)
            assert after.request.prompt_tokens == before.request.prompt_tokens + 30 + 60
    # What was said before is in the cache.
    cached = sum(record.cached_tokens for record in records)
    assert cached > 0.3 * sum(record.queried_tokens for record in records)


@pytest.mark.parametrize("changes", [{}, {"devices": 2}, {"faults": ("stall: at=3, for=2", "clock: left=0.6, at=1")}])
def test_it_is_the_same_each_time_and_however_steps_are_made(changes: dict[str, object]) -> None:
    users = workload(
        arrivals={"kind": "closed", "users": 4, "think_s": {"kind": "exponential", "mean": 0.5}},
        sessions={"turns": {"kind": "uniform", "min": 1, "max": 3}},
        requests=50,
    )
    scenario = Scenario(**changes)  # type: ignore[arg-type]
    runs = [play(users, scenario, leaps)[0] for leaps in (True, True, False)]
    instants = [[(each.request.id, each.device, each.tokens_s) for each in outcomes] for outcomes in runs]
    assert instants[0] == instants[1] == instants[2]


@pytest.mark.parametrize("name", [path.name for path in sorted(EXAMPLES.glob("*.toml"))])
def test_the_examples_play(name: str) -> None:
    outcomes, records = play(load_workload(EXAMPLES / name, requests=60), Scenario(devices=2))
    assert len(outcomes) == 60
    assert all(outcome.tokens == outcome.request.max_tokens for outcome in outcomes)
    assert records


class Heard(VirtualObserver):
    def __init__(self) -> None:
        self.records: list[StepRecord] = []
        self.outcomes: list[Outcome] = []

    def on_step(self, record: StepRecord) -> None:
        self.records.append(record)

    def on_finish(self, flight: Outcome) -> None:
        self.outcomes.append(flight)


@pytest.mark.parametrize("devices", [1, 3])
def test_an_observer_hears_all_that_would_be_kept(devices: int) -> None:
    users, scenario, heard = (
        workload(arrivals={"kind": "closed", "users": 5}, requests=40),
        Scenario(devices=devices),
        Heard(),
    )
    outcomes, records = play(users, scenario)
    assert play(users, scenario, observer=heard) == ([], [])
    assert sorted(heard.records, key=lambda each: (each.device, each.start_s)) == records
    told = {each.request.id: (each.started_s, each.first_s, each.last_s, each.tokens) for each in heard.outcomes}
    assert told == {each.request.id: (each.started_s, each.first_s, each.last_s, each.tokens) for each in outcomes}
