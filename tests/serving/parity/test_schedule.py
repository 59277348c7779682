"""Two schedules side by side: where do they part, and who slipped?"""

import msgspec

from serving.parity.schedule import StepShape, agreement, slipped
from serving.telemetry.flight_log import FlightRecord
from serving.types import Request, StepRecord
from tests.serving.telemetry.test_step_log import RECORD


def step(start_s: float, batch: int = 2, device: int = 0, slips: int = 0, mode: str = "ar") -> StepRecord:
    changes = {"start_s": start_s, "batch": batch, "new_tokens": batch, "device": device, "slips": slips, "mode": mode}
    return msgspec.structs.replace(RECORD, **changes)


def flight(id: str, arrival_s: float, started_s: float, place: int = 0, device: int = 0) -> FlightRecord:
    return FlightRecord(
        request=Request(id, arrival_s, prompt_tokens=10, max_tokens=2),
        name=id,
        place=place,
        device=device,
        started_s=started_s,
        first_s=started_s + 1,
        last_s=started_s + 2,
        tokens=2,
        finish="length",
    )


def test_the_same_steps_agree_whenever_they_are_made() -> None:
    live = [step(0.0), step(1.0, device=1), step(2.0)]
    virtual = [step(0.0), step(2.25), step(1.0, device=1)]
    found = agreement(live, virtual)
    assert found.identical and (found.steps, found.agree, found.apart_s) == (3, 3, 0.25)


def test_the_first_difference_is_told_by_time_and_each_device_counts_up_to_its_own() -> None:
    live = [step(0.0), step(1.0), step(2.0), step(0.0, device=1), step(0.5, 3, device=1), step(3.0, device=1)]
    virtual = [step(0.0), step(1.0, mode="sd"), step(2.0), step(0.0, device=1), step(0.5, device=1)]
    found = agreement(live, virtual)
    assert (found.steps, found.agree) == (6, 2)
    assert found.first is not None and (found.first.device, found.first.place, found.first.at_s) == (1, 1, 0.5)
    assert (found.first.live, found.first.virtual) == (StepShape("ar", 3, 3), StepShape("ar", 2, 2))


def test_steps_that_only_one_side_makes_are_a_difference() -> None:
    for live, virtual in (([step(0.0)], []), ([], [step(0.0)])):
        found = agreement(live, virtual)
        assert found.first is not None and (found.agree, found.first.place) == (0, 0)
        assert None in (found.first.live, found.first.virtual)
    assert agreement([], []).identical


def test_of_those_that_begin_in_a_step_they_slipped_who_were_heard_of_last() -> None:
    live = [step(0.0), step(1.0), step(2.0, slips=1), step(3.0)]
    flights = [
        flight("waited", 0.5, 2.0, place=0),  # for room
        flight("slipped", 0.9, 2.0, place=2),
        flight("in time", 1.5, 2.0, place=3),
        flight("elsewhere", 0.9, 2.0, place=1, device=1),
        flight("later", 2.5, 3.0, place=4),
    ]
    assert slipped(live, flights) == {"slipped": 1.5}


def test_all_who_may_have_slipped_did_where_a_step_says_so_of_more() -> None:
    flights = [flight("a", 0.8, 2.0, place=0), flight("b", 0.9, 2.0, place=1)]
    assert slipped([step(0.0), step(1.0), step(2.0, slips=3)], flights) == {"a": 1.5, "b": 1.5}


def test_nobody_slips_where_no_step_says_so() -> None:
    assert slipped([step(0.0), step(1.0), step(2.0)], [flight("waited", 0.5, 2.0)]) == {}
