"""Are faults what was written, in order, seeded, and combined? Does a stall pass in emulated time?"""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.condition import Condition
from serving.clock import VirtualClock
from serving.key_values import TermError
from serving.scenario.faults import DEGRADING, KINDS, STALL, Fault, condition_of, events, parse_fault
from serving.types import NEVER
from tests.serving.device.test_engine import Bench, workload

times = st.floats(0, 100).map(lambda t: round(t, 3))
lengths = st.floats(0.001, 100).map(lambda t: round(t, 3) or 0.001)
faults = st.one_of(
    st.builds(
        Fault, st.sampled_from(KINDS), st.just(0.5), st.integers(0, 2), times, lengths | st.just(NEVER), st.just(0.0)
    ),
    st.builds(Fault, st.just(STALL), st.just(1.0), st.none(), st.just(0.0), lengths, st.floats(0.1, 60)),
)


def test_a_fault_says_what_it_is() -> None:
    assert parse_fault("lpddr: left=0.4, device=0, at=10, for=30", "It") == Fault("lpddr", 0.4, 0, 10.0, 30.0)
    assert parse_fault("hb: left=0.75", "It").condition == Condition(hb_share=0.75)
    for kind, like in (("slow", "lpddr"), ("fast", "hb")):
        one, other = (parse_fault(f"{each}: left=0.75", "It") for each in (kind, like))
        assert one.condition == other.condition and one.is_of_slow_tier == other.is_of_slow_tier
    assert parse_fault("slow: left=0.4", "It").condition == Condition(ext_share=0.4)
    assert parse_fault("clock: left=0.6", "It").condition == Condition(clock_share=0.6)
    assert parse_fault("stall: for=2, rate=1.5", "It") == Fault("stall", for_s=2.0, rate_per_minute=1.5)
    assert parse_fault(" lost: device=1 ", "It") == Fault("lost", device=1)


@given(st.sampled_from(KINDS), st.integers(0, 9), times, lengths)
def test_what_is_printed_is_read_back(kind: str, device: int, at_s: float, for_s: float) -> None:
    fault = Fault(kind, 0.25 if kind in DEGRADING else 1.0, device, at_s, for_s)
    again = parse_fault(str(fault), "It")
    assert again._replace(at_s=0, for_s=0) == fault._replace(at_s=0, for_s=0)
    assert (again.at_s, again.for_s) == pytest.approx((at_s, for_s), rel=1e-4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fire", ["slow", "lpddr", "lost"]),
        ("hb", ["left="]),
        ("hb: left=0", ["at least 0.01"]),
        ("lpddr: left=1e-8", ["at least 0.01", "at most 1"]),
        ("clock: left=0.0099", ["at least 0.01"]),
        ("lpddr: left=2", ["at most 1"]),
        ("stall: at=1", ["for="]),
        ("stall: for=1, left=0.5", ["no left="]),
        ("lost: at=1", ["device="]),
        ("clock: left=0.5, rate=1", ["for="]),
        ("stall: for=0.000001, rate=1e12", ["rate", "at most 600"]),
        ("stall: for=1, rate=1e-300", ["rate above 0 (from 1e-06 on)"]),
        ("stall: for=1e300", ["duration", "beyond 1e+09 s"]),
        ("clock: left=0.5, at=1e300", ["time", "beyond 1e+09 s"]),
        ("clock: left=0.5, rate=1, at=2, for=1", ["not both"]),
        ("clock: left=0.5, device=one", ["device=one", "a whole number"]),
        ("clock: left=0.5, device=-1", ["below 0"]),
        ("clock: left=nan", ["must be a number"]),
        ("clock: left=0.5, at=-1", ["0 or later"]),
    ],
)
def test_a_fault_that_cannot_be_is_refused_in_a_sentence(text: str, said: list[str]) -> None:
    with pytest.raises(TermError) as refused:
        parse_fault(text, "An entry of `faults`")
    assert all(word in str(refused.value) for word in ["`faults`", text, *said]), str(refused.value)


@given(faults, st.integers(0, 9))
def test_events_come_in_order_each_end_after_its_begin_and_the_same_for_a_seed(drawn: Fault, seed: int) -> None:
    seen = list(islice(events(drawn, range(3), seed), 200))
    assert seen == list(islice(events(drawn, range(3), seed), 200))
    assert [event.at_s for event in seen] == sorted(event.at_s for event in seen)
    begun: dict[int, float] = {}
    for event in seen:
        if event.begins:
            assert event.number not in begun
            begun[event.number] = event.at_s
        else:
            assert event.at_s - begun[event.number] == pytest.approx(drawn.for_s)


def test_a_rate_is_what_is_seen_in_the_long_run_on_each_device() -> None:
    fault = Fault(STALL, for_s=1.0, rate_per_minute=6.0)
    seen = [event for event in islice(events(fault, range(2), seed=1), 8000) if event.begins]
    for device in range(2):
        # Every 10 s on average, counted from the end of the last one.
        per_minute = sum(event.device == device for event in seen) / (seen[-1].at_s / 60)
        assert per_minute == pytest.approx(60 / 11, rel=0.05)


def test_a_fault_for_good_has_no_end_and_one_of_all_devices_begins_on_each() -> None:
    seen = list(events(Fault("hb", 0.5, None, 3.0), range(3), seed=0))
    assert [(event.at_s, event.begins, event.device) for event in seen] == [(3.0, True, n) for n in range(3)]


def test_shares_multiply() -> None:
    active = [Fault("lpddr", 0.5), Fault("hb", 0.75), Fault("lpddr", 0.5), Fault(STALL, for_s=1.0)]
    assert condition_of(active) == Condition(ext_share=0.25, hb_share=0.75)


def test_however_many_there_are_something_is_left() -> None:
    active = [Fault("lpddr", 0.01), Fault("lpddr", 0.02), Fault("clock", 0.5)]
    assert condition_of(active) == Condition(ext_share=0.01, clock_share=0.5)


def test_a_stall_is_emulated_time_in_which_no_token_comes() -> None:
    undisturbed = [at for at, _ in Bench(VirtualClock(), workload(0.0)).run().schedule]
    bench = Bench(VirtualClock(), workload(0.0))
    while len(bench.releases) < 5:
        stall_after(bench, 5)
        bench.driver.cycle()
    bench.run()
    instants = [at for at, _ in bench.schedule]
    assert instants[:5] == undisturbed[:5]
    assert instants[5:] == pytest.approx([at + 2.0 for at in undisturbed[5:]])


def stall_after(bench: Bench, releases: int) -> None:
    sink = bench.releases.append

    def counting(release: object) -> None:
        sink(release)  # type: ignore[arg-type]
        if len(bench.releases) == releases:
            bench.driver.stall(bench.clock.now() + 2.0)

    bench.driver.engine.sink = counting


def test_what_arrives_in_a_stall_waits_for_its_end() -> None:
    bench = Bench(VirtualClock(), workload(0.5))
    bench.driver.stall(2.0)
    assert bench.run().releases[0].start_s == 2.0
