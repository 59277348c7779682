"""The laws of a workload: what follows from the seed, what depends on what, who shares what, and what ends it."""

import tracemalloc
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.scenario.slo import parse_classes
from serving.workload import Ask, Source, WorkloadError, plans
from serving.workload.ask import Segment, block_hashes
from serving.workload.spec import workload_of
from serving.workload.table import WorkloadTable
from serving.workload.virtual import request_of
from tests.examples import examples
from tests.serving.workload.files import LENGTHS, POISSON, served, written

POISSON_10 = {"kind": "poisson", "rate_per_s": 10}
LENGTHS_OF = {"prompt": {"kind": "uniform", "min": 5, "max": 50}, "output": {"kind": "exponential", "mean": 20}}


def source(seed: int | None = None, **tables) -> Source:
    return Source(
        workload_of(WorkloadTable({"arrivals": POISSON_10, "requests": 100, **LENGTHS_OF, **tables}, None)), seed
    )


def lengths(asks: list[Ask]) -> list[tuple[int, int]]:
    return [(ask.prompt_tokens, ask.output_tokens) for ask in asks]


@given(st.integers(0, 2**40))
def test_a_seed_gives_the_same_requests_again(seed):
    first, again, other = list(source(seed)), list(source(seed)), list(source(seed + 1))
    assert first == again != other
    assert [ask.session for ask in first] == list(range(100))
    assert all(one.arrival_s <= other.arrival_s for one, other in pairwise(first))
    assert not {ask.prompt[0].id for ask in first} & {ask.prompt[0].id for ask in other}


def test_each_aspect_has_a_stream_of_its_own():
    base = list(source(slo={"a": 1, "b": 1}))
    longer = list(source(slo={"a": 1, "b": 1}, prompt={"kind": "lognormal", "mean": 900, "cv": 2}))
    assert [ask.arrival_s for ask in base] == [ask.arrival_s for ask in longer]
    assert [ask.output_tokens for ask in base] == [ask.output_tokens for ask in longer]
    assert [ask.slo for ask in base] == [ask.slo for ask in longer]
    assert lengths(base) != lengths(longer)
    faster = list(source(slo={"a": 1, "b": 1}, arrivals={"kind": "gamma", "rate_per_s": 99, "cv": 3}))
    assert lengths(base) == lengths(faster)
    assert [ask.arrival_s for ask in base] != [ask.arrival_s for ask in faster]


def test_more_requests_begin_with_fewer():
    assert list(source(requests=10_000))[:100] == list(source(requests=100))


def test_a_system_prompt_changes_nothing_else():
    plain, prompted = list(source()), list(source(system={"tokens": 7}))
    assert [ask.prompt for ask in plain] == [ask.prompt[1:] for ask in prompted]
    assert [ask.arrival_s for ask in plain] == [ask.arrival_s for ask in prompted]
    assert len({ask.prompt[0] for ask in prompted}) == 1


@pytest.mark.parametrize("system", [None, {"tokens": 7}])
def test_what_bounds_a_workload(system):
    tables = {"system": system} if system else {}
    assert len(list(source(requests=5000, **tables))) == 5000
    bounded = list(source(requests=10**9, duration_s=500, **tables))
    assert len(bounded) == pytest.approx(5000, abs=500)
    assert bounded[-1].arrival_s < 500
    assert bounded == list(source(requests=len(bounded) + 1, duration_s=500, **tables))


def test_topics_drift_with_the_time_of_arrival():
    drift = [{"at_s": 0, "legal": 1}, {"at_s": 1000, "cs": 1}]
    asks = list(source(topics=drift, requests=10_000))
    for early, late, share in ((0, 100, 0.05), (450, 550, 0.5), (900, 1000, 0.95)):
        topics = [ask.topic for ask in asks if early <= ask.arrival_s < late]
        assert topics.count("cs") / len(topics) == pytest.approx(share, abs=0.06)


sessions = st.fixed_dictionaries(
    {
        "turns": st.one_of(st.integers(1, 5), st.just({"kind": "uniform", "min": 1, "max": 6})),
        "think_s": st.floats(0, 30),
        "max_tokens": st.integers(1, 400),
    }
)
systems = st.fixed_dictionaries(
    {"tokens": st.integers(1, 100), "per": st.sampled_from(["workload", "topic", "key"])},
)
arrivals = st.one_of(
    st.just(POISSON_10),
    st.fixed_dictionaries({"kind": st.just("closed"), "users": st.integers(1, 9), "think_s": st.floats(0, 5)}),
)


@examples(50)
@given(arrivals, sessions, systems, st.integers(0, 99), st.integers(1, 60))
def test_turns_of_a_session_share_exactly_their_history(arrivals, sessions, system, seed, count):
    tables = {"arrivals": arrivals, "sessions": sessions, "system": system, "requests": count}
    done = served(source(seed, topics={"cs": 1, "math": 2}, keys={"a": 1, "b": 1}, **tables))
    assert len(done) == count
    ends = {(ask.session, ask.turn): at_s for ask, at_s in done}
    by_turn = {(ask.session, ask.turn): ask for ask, _ in done}
    of_users = [segment.id for ask in by_turn.values() for segment in ask.prompt if segment.role == "user"]
    for (session, turn), ask in by_turn.items():
        assert of_users.count(ask.prompt[-1].id) >= 1
        assert ask.prompt[0].role == "system" and ask.prompt[0].tokens == system["tokens"]
        if turn:
            before = by_turn[session, turn - 1]
            reply = ask.prompt[-2]
            assert ask.prompt[:-2] == before.prompt
            assert (reply.role, reply.tokens) == ("assistant", before.output_tokens)
            assert (ask.topic, ask.slo, ask.key) == (before.topic, before.slo, before.key)
            assert ask.arrival_s == pytest.approx(ends[session, turn - 1] + sessions["think_s"])
            assert ask.prompt_tokens + ask.output_tokens <= max(sessions["max_tokens"], system["tokens"])
    # Nobody else says the same.
    users = {(segment.id, ask.session) for ask in by_turn.values() for segment in ask.prompt[1:]}
    assert len({id for id, _ in users}) == len(users)
    of_system = {ask.prompt[0].id for ask in by_turn.values()}
    kinds = {"workload": {""}, "topic": {a.topic for a in by_turn.values()}, "key": {a.key for a in by_turn.values()}}
    assert len(of_system) == len(kinds[system["per"]])


@given(st.integers(1, 12), st.floats(0.01, 9), st.floats(0, 9), st.integers(0, 99))
def test_in_a_closed_loop_no_user_has_two_requests_at_once(users, service_s, think_s, seed):
    closed = {"kind": "closed", "users": users, "think_s": {"kind": "uniform", "min": 0, "max": think_s}}
    done = served(source(seed, arrivals=closed, sessions={"turns": 2, "think_s": 1}, duration_s=100), service_s)
    begins, ends = (np.sort([at for at in each]) for each in zip(*((a.arrival_s, end) for a, end in done), strict=True))
    in_flight = [np.searchsorted(begins, at, "right") - np.searchsorted(ends, at, "right") for at in begins]
    assert max(in_flight) <= users
    assert len(done) == 100 or begins[-1] < 100


def test_what_users_ask_does_not_depend_on_when_others_are_served():
    closed = {"kind": "closed", "users": 4, "think_s": {"kind": "exponential", "mean": 3}}
    tables = {"arrivals": closed, "sessions": {"turns": {"kind": "uniform", "min": 1, "max": 4}}}
    slow, fast = (served(source(**tables), service_s) for service_s in (5.0, 0.1))

    def what(done):
        return sorted((ask.session, ask.turn, ask.prompt, ask.output_tokens, ask.key) for ask, _ in done)

    assert what(slow) == what(fast)


def test_a_user_who_thinks_past_the_end_is_not_served_any_more():
    closed = {"kind": "closed", "users": 1, "think_s": 3}
    done = served(source(arrivals=closed, sessions={"turns": 2, "think_s": 50}, duration_s=20), 1.0)
    assert [(ask.session, ask.turn) for ask, _ in done] == [(0, 0)]


segments = st.lists(
    st.builds(Segment, st.integers(0, 3), st.integers(1, 40)),
    min_size=1,
    max_size=6,
    unique_by=lambda segment: segment.id,
)


@given(segments, segments, st.integers(1, 16))
def test_blocks_are_equal_as_far_as_prompts_are(one, other, size):
    def tokens(prompt):
        """Each token by all that it is known by: what is before its segment, the segment, its place."""
        return [(tuple(prompt[:at]), each.id, place) for at, each in enumerate(prompt) for place in range(each.tokens)]

    hashes = block_hashes(one, size), block_hashes(other, size)
    alike = 0
    for this, that in zip(tokens(one), tokens(other), strict=False):
        if this != that:
            break
        alike += 1
    assert [len(found) for found in hashes] == [len(tokens(prompt)) // size for prompt in (one, other)]
    assert [a == b for a, b in zip(*hashes, strict=False)] == [
        place < alike // size for place in range(min(map(len, hashes)))
    ]
    assert all(0 <= each < 2**63 for found in hashes for each in found)


def test_a_request_in_virtual_time_has_the_promises_of_its_class():
    classes = parse_classes(["chat: ttft_ms=500, tpot_ms=50, priority=-1"], "slo_classes")
    asks = served(source(slo={"chat": 1}, keys={"a": 1}, sessions={"turns": 3}, topics={"cs": 1}, requests=3))
    requests = [request_of(ask, classes, 4, 0) for ask, _ in asks]
    assert {(r.ttft_s, r.tpot_s, r.priority, r.topic, r.key) for r in requests} == {(0.5, 0.05, -1, "cs", "a")}
    assert [r.id for r in requests] == ["0-0", "0-1", "0-2"]
    assert [r.prompt_tokens // 4 for r in requests] == [len(r.blocks) for r in requests]
    for one, later in pairwise(requests):
        assert later.blocks[: len(one.blocks)] == one.blocks
    assert request_of(asks[0][0], classes, 0, 0).blocks == []
    with pytest.raises(WorkloadError, match=r"SLO class 'chat'; the scenario has none"):
        request_of(asks[0][0], {}, 4, 0)


def test_a_file_is_read_lazily(tmp_path):
    endless = written(tmp_path, f"requests = 1000000000\n{POISSON}{LENGTHS}[sessions]\nturns = 3\n")
    assert len(list(islice(Source(endless), 10_000))) == 10_000


def test_a_short_run_draws_few_sessions_of_many_turns(tmp_path, monkeypatch):
    """As many as thousands of them have took seconds, and hundreds of megabytes. It is the same that is drawn."""
    long = written(tmp_path, f"requests = 10000\n{POISSON}{LENGTHS}[sessions]\nturns = 1000\n")
    tracemalloc.start()
    next(iter(Source(long)))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 30e6
    turns = "turns = { kind = 'exponential', mean = 3 }"
    usual = written(tmp_path, f"requests = 20000\n{POISSON}{LENGTHS}[sessions]\n{turns}\n")
    few = list(Source(usual))
    monkeypatch.setattr(plans, "FEW", plans.CHUNK)
    assert len(few) > plans.CHUNK and few == list(Source(usual))
