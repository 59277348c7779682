"""Continuous batching: what a step computes, within the limits of sequences, tokens and KV cache."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.scheduler.config import PREFILL, Limits, SchedulerRules
from serving.scheduler.scheduler import Scheduler
from serving.scheduler.step import MAX_HORIZON
from serving.types import NEVER, Batch, Done, Request

LIMITS = Limits(max_num_seqs=4, max_num_batched_tokens=64, kv_capacity_tokens=1000, block_tokens=1)


def request(id: str, arrival_s: float = 0.0, prompt: int = 8, output: int = 4, released: int = 0) -> Request:
    return Request(id, arrival_s, prompt, output, released)


def scheduler_with(*requests: Request, limits: Limits = LIMITS) -> Scheduler:
    scheduler = Scheduler(limits)
    for each in requests:
        scheduler.submit(each)
    return scheduler


def first_plan(scheduler: Scheduler, at_s: float = 0.0) -> Batch:
    return scheduler.plan(at_s, at_s, -1.0, Done(0))


def test_a_prompt_is_prefilled_and_then_decoded_until_its_last_token() -> None:
    scheduler = scheduler_with(request("a", prompt=8, output=4))
    prefill = first_plan(scheduler)
    assert (prefill.ids, prefill.new_tokens, prefill.context, prefill.emits) == (["a"], [8], [0], [True])
    assert (prefill.phase, prefill.started, prefill.horizon) == ("prefill", ["a"], 1)
    decode = scheduler.plan(1.0, 1.0, 0.0, Done(1))
    assert (decode.new_tokens, decode.context, decode.phase, decode.horizon) == ([1], [8], "decode", 3)
    assert not scheduler.plan(2.0, 2.0, 1.9, Done(3)).ids


def test_a_request_that_is_sent_again_as_its_device_tells_of_its_end_is_served() -> None:
    """As one is whose tokens were lost on their way: its edge is told of the end before the scheduler is."""
    scheduler = scheduler_with(request("a", output=1), request("b", output=9))
    first_plan(scheduler)
    scheduler.abort("a")
    scheduler.submit(request("a", output=1))
    assert scheduler.plan(1.0, 1.0, 0.0, Done(1, finished=["a"])).ids == ["b", "a"]
    assert scheduler.plan(2.0, 2.0, 1.0, Done(1, finished=["a"])).ids == ["b"]


def test_a_long_prompt_is_cut_into_chunks_and_emits_only_with_the_last() -> None:
    scheduler = scheduler_with(request("a", prompt=150))
    seen = []
    for step in range(3):
        batch = scheduler.plan(float(step), float(step), step - 1.0, Done(int(step > 0)))
        seen.append((batch.new_tokens, batch.context, batch.emits))
    assert seen == [([64], [0], [False]), ([64], [64], [False]), ([22], [128], [True])]


def test_decoding_comes_before_a_new_prompt_in_a_mixed_step() -> None:
    scheduler = scheduler_with(request("a"))
    first_plan(scheduler)
    scheduler.submit(request("b", 0.5, prompt=100))
    mixed = scheduler.plan(1.0, 1.0, 0.0, Done(1))
    assert (mixed.ids, mixed.new_tokens, mixed.phase) == (["a", "b"], [1, 63], "mixed")


@given(st.lists(st.floats(0.0, 20.0), min_size=1, max_size=30))
def test_who_comes_to_an_engine_that_plans_ahead_waits_for_one_whole_step_unless_it_is_idle(
    arrivals: list[float],
) -> None:
    roomy = Limits(max_num_seqs=64, max_num_batched_tokens=4096, kv_capacity_tokens=10_000, block_tokens=1)
    scheduler = Scheduler(roomy, SchedulerRules(schedules_ahead=True))
    requests = {str(i): request(str(i), arrival_s=at_s, output=3) for i, at_s in enumerate(arrivals)}
    for each in requests.values():
        scheduler.submit(each)
    at_s, last_s, began_s = 0.0, -1.0, dict[str, float]()
    done = Done(0)
    while len(began_s) < len(requests):
        busy = bool(scheduler.running)
        batch = scheduler.plan(at_s, at_s, last_s, done)
        if not batch.ids:
            at_s, done = batch.until_s, Done(0)
            continue
        busy = busy and bool(set(batch.ids) - set(batch.started))
        for id in batch.started:
            began_s[id] = batch.start_s
            assert requests[id].arrival_s <= (last_s if busy else batch.start_s)
        assert not any(each.arrival_s <= last_s for id, each in requests.items() if id not in began_s)
        assert batch.slips == 0
        last_s, at_s, done = batch.start_s, batch.start_s + 1.0, Done(1, before_s=last_s)
    assert max(began_s[id] - each.arrival_s for id, each in requests.items()) <= 2.0


def test_news_that_come_a_step_late_to_an_engine_that_plans_ahead_are_counted() -> None:
    scheduler = Scheduler(LIMITS, SchedulerRules(schedules_ahead=True))
    scheduler.submit(request("a", output=9))
    first_plan(scheduler)
    scheduler.plan(1.0, 1.0, 0.0, Done(1, before_s=-1.0))
    scheduler.submit(request("b", 0.5))
    assert (scheduler.plan(2.0, 2.0, 1.0, Done(1, before_s=0.0))).slips == 0, (
        "planned at 1, it would begin at 2 as well"
    )
    scheduler.submit(request("c", 0.7))
    late = scheduler.plan(3.0, 3.0, 2.0, Done(1, before_s=1.0))
    assert (late.started, late.slips) == (["c"], 1)


def test_an_idle_device_begins_at_the_arrival_and_not_at_the_news_of_it() -> None:
    scheduler = scheduler_with(request("a", arrival_s=5.0))
    assert scheduler.plan(1.0, 5.002, -1.0, Done(0)).start_s == 5.0


def test_a_known_later_arrival_bounds_the_batch() -> None:
    scheduler = scheduler_with(request("a"), request("b", arrival_s=3.0))
    assert first_plan(scheduler).until_s == 3.0


def test_the_batch_is_bounded_by_sequences_and_first_come_is_first_served() -> None:
    scheduler = scheduler_with(*(request(str(i), arrival_s=-i) for i in range(6)))
    batch = first_plan(scheduler)
    assert (batch.ids, batch.waiting) == (["5", "4", "3", "2"], 2)


def test_an_aborted_request_is_gone_from_the_next_step() -> None:
    scheduler = scheduler_with(request("a"), request("b"))
    first_plan(scheduler)
    scheduler.abort("a")
    scheduler.abort("unknown")
    assert scheduler.plan(1.0, 1.0, 0.0, Done(1)).ids == ["b"]


def test_a_request_that_stops_early_leaves() -> None:
    scheduler = scheduler_with(request("a", output=100))
    first_plan(scheduler)
    assert not scheduler.plan(1.0, 1.0, 0.0, Done(1, finished=["a"])).ids


def test_a_request_that_was_begun_elsewhere_goes_on_decoding() -> None:
    batch = first_plan(scheduler_with(request("a", prompt=8, output=10, released=3)))
    assert (batch.new_tokens, batch.context, batch.horizon) == ([1], [10], 7)


def test_an_arrival_whose_news_came_too_late_for_a_step_is_a_slip() -> None:
    scheduler = scheduler_with(request("a"))
    first_plan(scheduler)
    scheduler.submit(request("b", arrival_s=0.5))
    assert scheduler.plan(2.0, 2.0, last_s=1.0, done=Done(1)).slips == 1


def test_who_waits_for_room_and_not_for_news_is_no_slip() -> None:
    scheduler = Scheduler(Limits(max_num_seqs=1, max_num_batched_tokens=64, kv_capacity_tokens=1000))
    scheduler.submit(request("a", output=3))
    scheduler.submit(request("b"))
    first_plan(scheduler)
    late = [scheduler.plan(float(at), float(at), at - 1.0, Done(1)) for at in range(1, 4)]
    assert [batch.started for batch in late] == [[], [], ["b"]]
    assert [batch.slips for batch in late] == [0, 0, 0]


def test_when_the_kv_cache_is_full_the_last_comer_waits_and_is_computed_again() -> None:
    limits = Limits(max_num_seqs=4, max_num_batched_tokens=64, kv_capacity_tokens=21, block_tokens=1)
    scheduler = scheduler_with(request("a", output=9), request("b", output=9), limits=limits)
    assert first_plan(scheduler).ids == ["a", "b"]
    preempted = scheduler.plan(1.0, 1.0, 0.0, Done(1))
    while preempted.preemptions == 0:
        preempted = scheduler.plan(preempted.start_s + 1, 99.0, preempted.start_s, Done(preempted.horizon))
    assert (preempted.ids, preempted.waiting) == (["a"], 1)
    assert scheduler.kv.used_tokens <= limits.kv_capacity_tokens


@pytest.mark.parametrize("prefill", PREFILL)
@given(st.lists(st.tuples(st.integers(1, 60), st.integers(2, 40)), min_size=1, max_size=4), st.integers(1, 200))
def test_what_is_beyond_a_new_limit_leaves_with_the_next_step(
    prefill: str, drawn: list[tuple[int, int]], left: int
) -> None:
    limits = Limits(max_num_seqs=4, max_num_batched_tokens=400, kv_capacity_tokens=480, block_tokens=16)
    scheduler = Scheduler(limits, SchedulerRules(prefill=prefill))
    for i, (prompt, output) in enumerate(drawn):
        scheduler.submit(request(str(i), prompt=prompt, output=output))
    first_plan(scheduler)
    scheduler.limit(replace(limits, kv_capacity_tokens=left))
    after = scheduler.plan(1.0, 1.0, 0.0, Done(1))
    assert after.kv_tokens <= left or len(scheduler.running) == 1
    assert set(after.ids) <= set(scheduler.running) and after.ids


@given(
    st.lists(st.tuples(st.floats(0, 50), st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=25),
    st.integers(1, 6),
    st.integers(8, 80),
)
def test_every_request_gets_all_its_tokens_within_the_limits(
    drawn: list[tuple[float, int, int]], max_num_seqs: int, max_num_batched_tokens: int
) -> None:
    limits = Limits(max_num_seqs, max_num_batched_tokens, kv_capacity_tokens=120, block_tokens=1)
    requests = [Request(str(i), *each) for i, each in enumerate(drawn)]
    scheduler = scheduler_with(*requests, limits=limits)
    out = dict.fromkeys((r.id for r in requests), 0)
    at, last, steps = 0.0, -1.0, 0
    for _ in range(10_000):
        batch = scheduler.plan(at, at, last, Done(steps))
        steps = batch.horizon if batch.ids else 0
        assert len(batch.ids) <= max_num_seqs
        assert sum(batch.new_tokens) <= max_num_batched_tokens
        assert batch.kv_tokens + len(batch.ids) * (batch.horizon - 1) <= limits.kv_capacity_tokens
        assert 1 <= batch.horizon <= MAX_HORIZON
        for id, emits in zip(batch.ids, batch.emits, strict=True):
            out[id] += steps * emits
        if not batch.ids and batch.until_s == NEVER:
            break
        last, at = at, batch.until_s if not batch.ids else batch.start_s + steps
    assert out == {r.id: r.max_tokens for r in requests}
