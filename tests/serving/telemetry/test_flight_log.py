"""The flight log: what is written of requests is enough to serve them again in virtual time, step by step."""

from pathlib import Path

import pytest

from serving.call import Call
from serving.parity.replay import replay
from serving.parity.schedule import agreement, slipped
from serving.scenario.scenario import Scenario
from serving.telemetry.flight_log import FlightLog, read_flight_log
from serving.types import NEVER, Request
from serving.usage_error import UsageError
from tests.serving.telemetry.tracing.emulate import LIMITS, Edge

SCENARIO = Scenario(mode="tau", tau=2, max_num_seqs=8, max_num_batched_tokens=LIMITS.max_num_batched_tokens)
REQUESTS = [
    Request("a", 1.0, 300, 60, seed=7, topic="law", key="k", priority=-1, ttft_s=0.5, tpot_s=0.05, blocks=[2**62, 3]),
    Request("b", 1.1, 40, 30, seed=2**63 - 1),
    Request("c", 1.2, 500, 1),
]


def test_what_is_read_is_what_the_scheduler_took_and_what_came_of_it(tmp_path: Path) -> None:
    with FlightLog(tmp_path / "flights.jsonl") as log:
        edge = Edge(observers=(log,))
        for request in REQUESTS:
            call = Call(request.arrival_s, headers=[(b"x-request-id", f"my-{request.id}".encode())])
            call.posted_s = request.arrival_s + 0.001
            edge.submit(request, call)
        edge.run()
    found = sorted(read_flight_log(tmp_path / "flights.jsonl"), key=lambda each: each.place)
    assert [each.arriving() for each in found] == REQUESTS
    assert [(each.name, each.device, each.finish) for each in found] == [(f"my-{id}", 0, "length") for id in "abc"]
    assert [each.tokens for each in found] == [60, 30, 1]
    assert [each.posted_s for each in found] == [request.arrival_s + 0.001 for request in REQUESTS]
    assert all(each.arrival_s <= (each.started_s or 0) < (each.first_s or 0) <= each.last_s for each in found)


def test_what_was_due_stays_due_if_it_comes_later(tmp_path: Path) -> None:
    with FlightLog(tmp_path / "flights.jsonl") as log:
        edge = Edge(observers=(log,))
        for request in REQUESTS:
            edge.submit(request)
        edge.run()
    for each in read_flight_log(tmp_path / "flights.jsonl"):
        later = each.arriving(each.arrival_s + 0.25)
        assert later.deadline_s == pytest.approx(each.arriving().deadline_s)
        assert (later.ttft_s == NEVER) == (each.id != "a")


def test_requests_of_before_the_log_are_left_out_and_one_without_tokens_is_not(tmp_path: Path) -> None:
    with FlightLog(tmp_path / "flights.jsonl") as log:
        edge = Edge()
        before = edge.submit(REQUESTS[0])
        edge.observers = (*edge.observers, log)
        gone = edge.submit(REQUESTS[1], called=False)
        edge.finish(gone, "abort")
        edge.finish(before, "abort")
    (found,) = read_flight_log(tmp_path / "flights.jsonl")
    assert (found.id, found.name, found.tokens, found.started_s, found.finish) == ("b", "", 0, None, "abort")


@pytest.mark.parametrize("late_steps", [0, 3])
def test_served_again_the_steps_are_the_same_and_of_one_that_slipped_it_is_known_which(
    tmp_path: Path, late_steps: int
) -> None:
    """As live: a request is stamped, and news of it reach the scheduler some steps later."""
    with FlightLog(tmp_path / "flights.jsonl") as log:
        edge = Edge("tau", observers=(log,))
        edge.submit(Request("long", 1.0, 300, 400, seed=7))
        while edge.driver.engine.at_s < 1.5:
            edge.driver.cycle()
        arrival_s = edge.driver.engine.at_s + 1e-3
        for _ in range(1 + late_steps):
            edge.driver.cycle()
        edge.submit(Request("late", arrival_s, 40, 250, seed=5))
        edge.run()
    flights = read_flight_log(tmp_path / "flights.jsonl")
    assert {record.mode for record in edge.records} == {"ar", "sd"}
    late = slipped(edge.records, flights)
    assert late.keys() == ({"late"} if late_steps else set())
    arrived = agreement(edge.records, replay(SCENARIO, flights, {})[1])
    assert arrived.identical == (not late_steps)
    assert arrived.agree < arrived.steps or not late_steps
    heard = agreement(edge.records, replay(SCENARIO, flights, late)[1])
    assert heard.identical and heard.agree == heard.steps == len(edge.records) and heard.apart_s < 1e-9


def test_a_file_that_cannot_be_written_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--flight-log .*/nowhere/log cannot be written: No such file.*\.$"):
        FlightLog(tmp_path / "nowhere" / "log").__enter__()
