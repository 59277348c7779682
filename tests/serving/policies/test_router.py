"""Does the router spread load, keep affinity while load allows, and never choose a device that is closed?"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from serving.key_values import TermError
from serving.policies.router import Router
from serving.policies.routing import (
    ROUTERS,
    SPILL_FACTOR,
    SPILL_REQUESTS,
    WEIGHTS,
    FleetView,
    Score,
    loads_of,
    parse_router,
    with_room,
)
from serving.types import Request

TOPICS = ["", "legal", "cs", "maths", "other"]


def request(id: int, topic: str = "", blocks: list[int] | None = None) -> Request:
    return Request(str(id), 0.0, 100, 10, topic=topic, blocks=blocks or [])


def router(policy: str, devices: int) -> Router:
    made = Router(parse_router(policy).policy())
    for device in range(devices):
        made.add(device, 0.01)
    return made


requests = st.lists(
    st.builds(
        lambda topic, prefix: request(0, topic, [prefix * 10, prefix * 10 + 1]),
        st.sampled_from(TOPICS),
        st.integers(0, 3),
    ),
    max_size=80,
)


def test_on_a_device_that_never_came_up_nothing_is_in_flight() -> None:
    assert router("least-loaded", 1).in_flight(1) == 0


@given(st.sampled_from(ROUTERS), st.integers(1, 6), requests, st.lists(st.booleans(), max_size=80))
def test_what_is_in_flight_is_what_was_chosen_and_has_not_ended(
    policy: str, devices: int, wanted: list[Request], ends: list[bool]
) -> None:
    made = router(policy, devices)
    flying: list[tuple[int, Request]] = []
    for next_one, end in zip(wanted, ends, strict=False):
        flying.append((made.choose(next_one), next_one))
        if end:
            made.done([flying.pop(0)])
    for device in range(devices):
        assert made.in_flight(device) == sum(where == device for where, _ in flying)


@given(st.sampled_from(ROUTERS[1:4]), st.integers(1, 6), requests)
def test_spilling_bounds_the_imbalance(policy: str, devices: int, wanted: list[Request]) -> None:
    made = router(policy, devices)
    for each in wanted:
        least = min(made.in_flight(device) for device in range(devices)) + 1
        assert made.in_flight(made.choose(each)) <= SPILL_FACTOR * least + SPILL_REQUESTS


@given(st.integers(1, 6), requests)
def test_a_score_bounds_the_imbalance_by_its_weights(devices: int, wanted: list[Request]) -> None:
    made = router("score", devices)
    most = 1 + (WEIGHTS["topic"] + WEIGHTS["prefix"]) / WEIGHTS["load"]
    for each in wanted:
        least = min(made.in_flight(device) for device in range(devices)) + 1
        load = made.in_flight(made.choose(each))
        assert load + SPILL_REQUESTS <= most * (least + SPILL_REQUESTS) + 1e-9


@given(st.integers(1, 8), st.lists(st.booleans(), max_size=60))
def test_the_least_loaded_has_the_fewest_requests(devices: int, ends: list[bool]) -> None:
    made = router("least-loaded", devices)
    flying: list[int] = []
    for end in ends:
        if end and flying:
            made.done([(flying.pop(0), request(0))])
        else:
            flying.append(made.choose(request(0)))
    counts = [flying.count(device) for device in range(devices)]
    assert counts[made.choose(request(0))] == min(counts)


@pytest.mark.parametrize("policy", ROUTERS)
def test_all_devices_are_used(policy: str) -> None:
    made = router(policy, 4)
    used = {made.choose(request(n, "cs", [1, 2])) for n in range(40)}
    assert used == {0, 1, 2, 3}


@given(st.sampled_from(ROUTERS), requests, st.lists(st.integers(0, 4), max_size=80))
def test_a_closed_device_is_never_chosen_and_a_named_one_is_while_it_is_open(
    policy: str, wanted: list[Request], named: list[int]
) -> None:
    made = router(policy, 4)
    made.close(1)
    for each, name in zip(wanted, named, strict=False):
        chosen = made.choose(each, name)
        assert chosen == name if name in (0, 2, 3) else chosen in (0, 2, 3)
    made.open(1)
    assert made.choose(request(0), 1) == 1


@pytest.mark.parametrize("policy", ["topic-affine", "score"])
def test_topics_stay_together_while_load_allows_and_share_the_devices(policy: str) -> None:
    made = router(policy, 2)
    homes: dict[str, set[int]] = {topic: set() for topic in ("legal", "cs", "maths", "other")}
    for n in range(200):
        topic = list(homes)[n % 4]
        each = request(n, topic)
        device = made.choose(each)
        homes[topic].add(device)
        made.done([(device, each)])
    assert all(len(devices) == 1 for devices in homes.values())
    assert sorted(device for (device,) in homes.values()) == [0, 0, 1, 1]


def test_a_topic_moves_to_a_device_that_has_joined_and_away_from_one_that_has_left() -> None:
    made = router("topic-affine", 1)
    assert {made.choose(request(n, topic)) for n, topic in enumerate(TOPICS)} == {0}
    made.add(1, 0.01)
    made.close(0)
    assert {made.choose(request(n, topic)) for n, topic in enumerate(TOPICS)} == {1}


def test_half_of_the_topics_move_to_a_device_that_has_joined() -> None:
    made, topics = router("topic-affine", 1), TOPICS[1:]

    def homes() -> list[int]:
        found = []
        for n, topic in enumerate(topics):
            each = request(n, topic)
            found.append(made.choose(each))
            made.done([(found[-1], each)])
        return found

    assert homes() == [0, 0, 0, 0]
    made.add(1, 0.01)
    assert sorted(homes()) == [0, 0, 1, 1]
    assert homes() == homes()


def test_of_equally_loaded_devices_the_one_with_shorter_prompts_is_chosen() -> None:
    made = router("least-loaded", 2)
    long, short, more = (structs.replace(request(n), prompt_tokens=tokens) for n, tokens in enumerate((1000, 10, 100)))
    assert (made.choose(long), made.choose(short)) == (0, 1)
    assert made.choose(more) == 1
    # Once the long one has ended, and another of each is there, the first has fewer.
    made.done([(0, long)])
    assert made.choose(short) == 0
    assert made.choose(short) == 0


@pytest.mark.parametrize("policy", ["prefix-affine", "score"])
def test_a_prompt_goes_where_the_longest_part_of_it_has_been(policy: str) -> None:
    made = router(policy, 3)
    first = made.choose(request(0, blocks=[1, 2, 3, 4]))
    second = made.choose(request(1, blocks=[7, 8]))
    assert first != second
    assert made.choose(request(2, blocks=[1, 2, 3, 9])) == first
    assert made.choose(request(3, blocks=[7, 8, 9])) == second


@pytest.mark.parametrize("policy", ["prefix-affine", "score"])
def test_a_prompt_that_was_sent_to_a_named_device_is_known_to_be_there(policy: str) -> None:
    made = router(policy, 3)
    assert made.choose(request(0, blocks=[1, 2, 3, 4]), named=2) == 2
    assert made.choose(request(1, blocks=[1, 2, 3, 9])) == 2


@pytest.mark.parametrize("policy", ["prefix-affine", "score"])
def test_what_a_device_had_before_it_was_lost_counts_no_more(policy: str) -> None:
    made = router(policy, 2)
    first = made.choose(request(0, blocks=[1, 2, 3, 4]))
    made.close(first)
    other = made.choose(request(1, blocks=[1, 2, 3, 4]))
    made.add(first, 0.01)
    assert made.choose(request(2, blocks=[1, 2, 3, 4])) == other


def test_of_devices_that_have_come_and_gone_nothing_is_kept_though_their_requests_leave_them_later() -> None:
    made = router("least-loaded", 2)
    for index in range(2, 6):
        made.add(index, 0.001)
        last = request(index)
        assert made.choose(last) == index
        made.remove(index)
        assert made.choose(last) != index and made.in_flight(index) == 0
        made.done([(index, last)])
    assert sorted(made._views) == [0, 1]


def test_a_faster_device_gets_more() -> None:
    made = Router(parse_router("least-loaded").policy())
    made.add(0, 0.01)
    made.add(1, 0.03)
    for n in range(40):
        made.choose(request(n))
    assert (made.in_flight(0), made.in_flight(1)) == (30, 10)
    made.set_speed(1, 0.01)
    assert made.choose(request(40)) == 1


def test_round_robin_takes_turns() -> None:
    made = router("round-robin", 3)
    assert [made.choose(request(n)) for n in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    made.close(1)
    assert [made.choose(request(n)) for n in range(3)] == [2, 0, 2]


def test_the_least_loaded_device_always_has_room() -> None:
    views = [FleetView(0, 0.01, requests=50), FleetView(1, 0.02, requests=3), FleetView(2, 0.01, requests=1)]
    loads = loads_of(views)
    assert loads == [51.0, 8.0, 2.0]
    assert with_room(views) == [views[2]]
    assert with_room([replace(view, requests=0) for view in views]) == [replace(view, requests=0) for view in views]


def test_weights_that_favour_nothing_but_load_choose_the_least_loaded() -> None:
    policy = parse_router("score: load=2, topic=0, prefix=0").policy()
    assert isinstance(policy, Score)
    views = [FleetView(0, 0.01, requests=2), FleetView(1, 0.01, requests=1)]
    assert policy.choose(request(0, "cs", [1]), views).index == 1


def test_the_least_and_the_largest_weights_choose_too() -> None:
    views = [FleetView(0, 0.01, requests=2), FleetView(1, 1e-6, requests=10**6)]
    for load, index in ((1e6, 0), (5e-324, 1)):
        policy = parse_router(f"score: load={load}, topic=1e6, prefix=1000000").policy()
        policy.choose(request(0, "", [1]), views[1:])
        assert policy.choose(request(0, "", [1]), views).index == index


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dice", ["'dice'", "round-robin", "score"]),
        ("score: luck=1", ["luck=1", "load=...", "prefix=..."]),
        ("score: load=heavy", ["load=heavy", "a number"]),
        ("score: load=0", ["load=0.0: allowed is above 0 and at most 1,000,000."]),
        ("score: load=1e300", ["load=1e+300: allowed is above 0 and at most 1,000,000."]),
        ("score: load=-1", ["load=-1.0: allowed is above 0"]),
        ("score: topic=1000001", ["topic=1000001.0: allowed is 0 to 1,000,000."]),
        ("score: prefix=-0.5", ["prefix=-0.5: allowed is 0 to 1,000,000."]),
        ("least-loaded: load=1", ["takes no terms"]),
    ],
)
def test_a_router_that_cannot_be_is_refused_in_a_sentence(text: str, said: list[str]) -> None:
    with pytest.raises(TermError) as refused:
        parse_router(text)
    assert all(word in str(refused.value) for word in said), str(refused.value)
