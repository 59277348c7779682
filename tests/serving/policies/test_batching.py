"""Who begins next under each policy; and is anybody passed over for ever?"""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.policies.waiting_queue import PriorityHeap, WaitingQueue
from serving.scheduler.config import BATCHING, SchedulerRules
from serving.types import NEVER, Request

TOPICS = ["legal", "cs", "math"]
NOBODY: Counter[str] = Counter()
PREFILL_S = 0.2


def rules(batching: str, hold_s: float = 0.0, patience_s: float = 5.0) -> SchedulerRules:
    return SchedulerRules(batching, patience_s=patience_s, hold_s=hold_s)


def request(id: str, at_s: float = 0.0, topic: str = "", ttft_s: float = NEVER, priority: int = 0) -> Request:
    return Request(id, at_s, 10, 10, topic=topic, priority=priority, ttft_s=ttft_s)


def queue_of(batching: str, *requests: Request, hold_s: float = 0.0) -> WaitingQueue:
    queue = rules(batching, hold_s).queue(lambda _: PREFILL_S)
    for each in requests:
        queue.push(each)
    return queue


def served(queue: WaitingQueue, at_s: float = 0.0, running: Counter[str] = NOBODY) -> str:
    """Who begins, one after the other, at one instant."""
    ids = ""
    while first := queue.first(at_s, running):
        queue.remove(first)
        ids += first.id
    return ids


def test_the_policies_are_the_files() -> None:
    assert BATCHING == ("fcfs", "priority", "slo-aware", "topic-aware")


def test_fcfs_knows_only_arrivals() -> None:
    assert served(queue_of("fcfs", request("b", 2.0, priority=-1), request("a", 1.0), request("c", 3.0))) == "abc"


def test_a_lower_priority_number_comes_first_until_patience_has_run_out() -> None:
    requests = [request("a", 0.0, priority=5), request("b", 1.0, priority=0), request("c", 2.0, priority=0)]
    assert served(queue_of("priority", *requests), at_s=3.0) == "bca"
    assert served(queue_of("priority", *requests), at_s=5.0) == "abc"


def test_priorities_of_64_bits_differ_though_floats_of_them_do_not() -> None:
    lower = 2**62
    assert (
        served(queue_of("priority", request("b", 0.0, priority=lower + 1), request("a", 1.0, priority=lower))) == "ab"
    )


def test_the_earliest_deadline_comes_first_and_who_is_late_lets_those_pass_who_are_not() -> None:
    requests = [request("a", 0.0, ttft_s=1.0), request("b", 0.1, ttft_s=3.0), request("c", 0.2)]
    assert served(queue_of("slo-aware", *requests), at_s=0.5) == "abc"
    # At 0.9 there are no 0.2 s left for the prompt of a.
    assert served(queue_of("slo-aware", *requests), at_s=0.9) == "bca"
    # Not for ever: 5 s after its latest start it goes before all.
    assert served(queue_of("slo-aware", *requests, request("d", 6.0, ttft_s=2.0)), at_s=6.0) == "adbc"


def test_who_has_longer_than_patience_lasts_is_not_late_before_its_deadline() -> None:
    patient = request("a", 0.0, ttft_s=30.0)
    # Once patience (5 s) has run out it lets nobody pass who may begin later.
    assert served(queue_of("slo-aware", patient, request("b", 6.0, ttft_s=40.0)), at_s=6.0) == "ab"
    # Nor does it go before one that must begin sooner, once patience has run out again.
    assert served(queue_of("slo-aware", patient, request("b", 12.0, ttft_s=2.0)), at_s=12.0) == "ba"
    # Late, it goes before all when patience has run out after its deadline.
    assert served(queue_of("slo-aware", patient, request("b", 34.0, ttft_s=2.0)), at_s=34.5) == "ba"
    assert served(queue_of("slo-aware", patient, request("b", 34.0, ttft_s=2.0)), at_s=34.9) == "ab"


def test_the_batchs_topic_comes_first_then_who_has_waited_longest() -> None:
    requests = [
        request("a", 0.0, "cs"),
        request("b", 0.1, "legal"),
        request("c", 0.2, "legal"),
        request("d", 0.3, "cs"),
    ]
    assert served(queue_of("topic-aware", *requests), at_s=0.5, running=Counter(legal=2, cs=1)) == "bcad"
    assert served(queue_of("topic-aware", *requests), at_s=0.5) == "abcd"


def test_a_deadline_comes_before_a_topic() -> None:
    requests = [request("a", 0.0, "cs", ttft_s=1.0), request("b", 0.1, "legal")]
    running = Counter(legal=2)
    assert queue_of("topic-aware", *requests).first(0.79, running).id == "b"  # type: ignore[union-attr]
    assert queue_of("topic-aware", *requests).first(0.8, running).id == "a"  # type: ignore[union-attr]


def test_another_topic_is_held_back_as_long_as_is_allowed_and_no_longer_than_its_deadline_allows() -> None:
    queue = queue_of("topic-aware", request("a", 1.0, "cs"), hold_s=0.5)
    assert queue.first(1.2, Counter(legal=1)) is None
    assert queue.wakes_s(1.2) == 1.5
    assert queue.first(1.5, Counter(legal=1)) is not None
    assert queue.first(1.2, NOBODY) is not None  # nothing runs that it would disturb
    urgent = queue_of("topic-aware", request("a", 1.0, "cs", ttft_s=0.3), hold_s=0.5)
    assert urgent.wakes_s(1.0) == pytest.approx(1.1)
    assert urgent.first(1.1, Counter(legal=1)) is not None


@pytest.mark.parametrize("batching", ["priority", "topic-aware"])
def test_who_has_been_served_is_forgotten_though_all_that_wait_are_overdue(batching: str) -> None:
    queue = queue_of(batching, *(request(f"first {i}", float(i), TOPICS[i % 3]) for i in range(100)))
    for i in range(3000):
        first = queue.first(1e6, NOBODY)
        assert first is not None
        queue.remove(first)
        queue.push(request(str(i), 100.0 + i, TOPICS[i % 3]))
    lines = [
        each for value in vars(queue).values() for each in (value.values() if isinstance(value, dict) else [value])
    ]
    heaps = [len(line._heap) for line in lines if isinstance(line, PriorityHeap)]
    assert len(heaps) >= 2 and max(heaps) <= 2 * 100 + 17


drawn = st.tuples(
    st.floats(0, 20),
    st.sampled_from(TOPICS),
    st.sampled_from([0.5, 2.0, NEVER]),
    st.integers(0, 3),
)


@given(st.sampled_from(BATCHING), st.lists(drawn, max_size=30), st.lists(st.booleans(), min_size=30, max_size=30))
def test_everybody_is_served_once_and_who_has_left_is_not(
    batching: str, of: list[tuple[float, str, float, int]], leaves: list[bool]
) -> None:
    requests = [request(str(i), *each) for i, each in enumerate(of)]
    queue = queue_of(batching, *requests)
    for each, gone in zip(requests, leaves, strict=False):
        if gone:
            queue.remove(each)
    stay = {each.id for each, gone in zip(requests, leaves, strict=False) if not gone}
    assert len(queue) == len(stay)
    seen = []
    while first := queue.first(25.0, NOBODY):
        queue.remove(first)
        seen.append(first.id)
    assert sorted(seen) == sorted(stay) and len(queue) == 0


@given(st.lists(drawn, min_size=1, max_size=40), st.lists(st.floats(0.01, 1.5), min_size=60, max_size=60))
def test_nobody_who_must_begin_now_waits_for_one_who_need_not_because_of_a_topic(
    of: list[tuple[float, str, float, int]], gaps: list[float]
) -> None:
    """Bounded waiting: from its latest start on, a request waits only for those whose own was before."""
    requests = sorted((request(str(i), *each) for i, each in enumerate(of)), key=lambda each: each.arrival_s)
    terms = rules("topic-aware", hold_s=1.0)
    queue, at, running, coming = terms.queue(lambda _: PREFILL_S), 0.0, Counter[str](), list(requests)

    def latest(each: Request) -> float:
        return min(each.deadline_s - PREFILL_S, each.arrival_s + terms.patience_s)

    for gap in gaps:
        at += gap
        while coming and coming[0].arrival_s <= at:
            queue.push(coming.pop(0))
        waiting = [each for each in requests if each.arrival_s <= at and each not in coming]
        if first := queue.first(at, running):
            overdue = [latest(each) for each in waiting if latest(each) <= at]
            assert not overdue or latest(first) == min(overdue)
            queue.remove(first)
            requests.remove(first)
            running[first.topic] += 1
        else:
            assert all(latest(each) > at and each.arrival_s + 1.0 > at for each in waiting)
