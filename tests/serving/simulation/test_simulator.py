"""Does a scenario in virtual time have its routers, shared tiers and faults, and the same digits each time?"""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.clock import VirtualClock
from serving.device.engine import Engine
from serving.device.live_driver import LiveDriver
from serving.device.token_buffer import TokenBuffer
from serving.reports.policy_comparison import mixed
from serving.scenario.scenario import Scenario
from serving.scheduler.scheduler import Scheduler
from serving.simulation.node import Outcome
from serving.simulation.simulator import Simulator
from serving.types import Chunk, Release, Request
from tests.examples import examples


def crowd(count: int, gap_s: float = 0.0, output: int = 200) -> list[Request]:
    return [Request(str(i), i * gap_s, 64, output, seed=i) for i in range(count)]


def gaps(outcome: Outcome, begin_s: float = 0.0, end_s: float = float("inf")) -> list[float]:
    """Times from token to token that lie within a time."""
    return [later - one for one, later in pairwise(outcome.tokens_s) if begin_s < one and later < end_s]


def homes(outcomes: list[Outcome]) -> Counter[int]:
    return Counter(outcome.device for outcome in outcomes)


def test_round_robin_takes_turns_and_least_loaded_spares_the_slow() -> None:
    unlike = Scenario(fleet=("elmoe3d-8gb", "xpu/elmoe3d-8gb+none"), mode="fixed-ar", max_num_seqs=4)
    requests = crowd(40, gap_s=1.0)
    turns, _ = Simulator(Scenario(devices=2, router="round-robin", mode="fixed-ar")).serve(requests)
    assert homes(turns) == {0: 20, 1: 20}
    spared, _ = Simulator(unlike).serve(requests)
    assert homes(spared)[0] > homes(spared)[1]


def test_requests_that_have_ended_are_off_the_routers_books_and_no_others() -> None:
    scenario = Scenario(devices=3, mode="fixed-ar", max_num_seqs=2)
    simulated = Simulator(scenario)
    outcomes, _ = simulated.serve(crowd(30, gap_s=0.05, output=20))
    assert all(outcome.tokens == 20 for outcome in outcomes)
    assert [simulated._router.in_flight(device) for device in range(3)] == [0, 0, 0]


def test_devices_on_one_tier_slow_each_other_down() -> None:
    apart = Scenario(devices=2, mode="fixed-ar", router="round-robin")
    together = Scenario(devices=2, shared_ext=2, mode="fixed-ar", router="round-robin")
    alone, shared = (np.median(gaps(Simulator(each).serve(crowd(2))[0][0])) for each in (apart, together))
    assert 1.1 < shared / alone < 2.0


@pytest.mark.parametrize("fault", ["lpddr: left=0.5", "hb: left=0.5", "clock: left=0.5"])
def test_what_breaks_slows_steps_down_for_as_long_as_it_lasts(fault: str) -> None:
    scenario = Scenario(mode="fixed-ar", faults=(f"{fault}, at=1, for=1",))
    (outcome,), _ = Simulator(scenario).serve(crowd(1, output=800))
    before, broken, after = (np.median(gaps(outcome, *when)) for when in ((0.3, 1.0), (1.05, 2.0), (2.05, 9.0)))
    assert broken > 1.04 * before
    assert after == pytest.approx(before, rel=0.05)


def test_a_stall_is_time_in_which_no_token_comes() -> None:
    scenario = Scenario(mode="fixed-ar", faults=("stall: at=1, for=3",))
    (outcome,), _ = Simulator(scenario).serve(crowd(1, output=400))
    assert max(gaps(outcome)) == max(gaps(outcome, 0.9, 4.1)) == pytest.approx(3.0, abs=0.05)
    assert sorted(gaps(outcome))[-2] < 0.1


FAULTY = {
    "faults": ("lpddr: left=0.5, rate=20, for=1, device=0", "clock: left=0.7, at=2, for=3", "stall: for=0.5, rate=6"),
    "devices": 2,
    "max_num_seqs": 6,
}


# A hundredth of the bandwidth is left, and comes back within a step.
SUDDEN = FAULTY | {"faults": ("lpddr: left=0.01, rate=30, for=0.1", "clock: left=0.01, rate=20, for=0.03")}


@pytest.mark.parametrize(
    "changes",
    [
        FAULTY,
        SUDDEN,
        SUDDEN | {"shared_ext": 2},
        FAULTY | {"shared_ext": 2},
        FAULTY | {"router": "score: load=1, topic=1"},
    ],
)
@pytest.mark.parametrize("mode", ["fixed-ar", "tau"])
def test_it_is_the_same_each_time_and_whether_steps_are_made_at_once_or_not(
    changes: dict[str, object], mode: str
) -> None:
    scenario = Scenario(mode=mode, **changes)  # type: ignore[arg-type]
    requests = mixed(24, seed=7, rate_per_s=4.0)
    runs = [Simulator(scenario, leaps).serve(requests) for leaps in (True, True, False)]
    instants = [[(outcome.device, outcome.tokens_s) for outcome in outcomes] for outcomes, _ in runs]
    assert instants[0] == instants[1] == instants[2]
    assert sum(r.steps for r in runs[0][1]) == len(runs[2][1])


def test_the_last_slow_tier_may_have_fewer_devices_than_may_share_it() -> None:
    scenario = Scenario(devices=3, shared_ext=2, mode="fixed-ar", faults=("slow: left=0.5, device=2, at=0.5, for=1",))
    outcomes, _ = Simulator(scenario).serve(crowd(10, gap_s=0.1, output=50))
    assert all(outcome.tokens == 50 for outcome in outcomes)


def test_a_fault_that_a_device_cannot_suffer_beside_others_does_not_come(caplog: pytest.LogCaptureFixture) -> None:
    """A tenth of 16 banks is one, and a tenth of that none."""
    one, other = "fast: left=0.1, at=0.1, for=1", "fast: left=0.11, at=0.2, for=1"
    (alone, _), (both, _) = (
        Simulator(Scenario(hardware="elmoe3d-4gb", mode="fixed-ar", faults=faults)).serve(crowd(3, output=50))
        for faults in ((one,), (one, other))
    )
    assert [outcome.tokens_s for outcome in both] == [outcome.tokens_s for outcome in alone]
    assert "could not come: hb_share is 0.011" in caplog.text


@pytest.mark.parametrize("traced", [False, True])
def test_a_step_does_not_outlive_what_slowed_it_down(traced: bool) -> None:
    """What is broken for a fifth of a second costs no more than that, though a prompt is under way all the time."""
    scenario = Scenario(mode="fixed-ar", residency="trace" if traced else "analytic")
    requests = [Request("0", 1.0, 600, 3, seed=1)]
    ((healthy,), _), ((broken,), records) = (
        Simulator(replace(scenario, faults=faults)).serve(requests)
        for faults in ((), ("lpddr: left=0.01, at=1.01, for=0.2", "clock: left=0.01, at=1.02, for=0.1"))
    )
    assert healthy.ttft_s > 0.05
    assert 0.15 < broken.ttft_s - healthy.ttft_s <= 0.21
    assert broken.last_s - broken.first_s == pytest.approx(healthy.last_s - healthy.first_s, rel=0.05)
    assert records[0].latency_s == pytest.approx(broken.ttft_s, rel=1e-6)


def one_by_one(scenario: Scenario, requests: list[Request]) -> dict[str, list[float]]:
    """The instant of each token on one device whose engine knows all requests beforehand, and plans and makes its steps
    one after the other, as in a server."""
    node = Simulator(replace(scenario, devices=1)).nodes[0]
    scheduler, tokens, seen = Scheduler(node.scheduler.limits, node.scheduler.rules), TokenBuffer(), {}
    for each in requests:
        scheduler.submit(each)
        tokens.open(each.id)
        last = each.max_tokens - 1
        tokens.push([Chunk(each.id, i, [i], 1 if i == last else None) for i in range(each.max_tokens)])

    def note(release: Release) -> None:
        for chunk in release.chunks:
            seen.setdefault(chunk.request_id, []).append(release.at_s)

    engine = Engine(0, scheduler, node.engine.pricer, node.engine.tier, tokens, note)
    driver = LiveDriver(engine, VirtualClock())
    while sum(map(len, seen.values())) < sum(each.max_tokens for each in requests):
        driver.cycle()
    return seen


@examples(15)
@given(
    seed=st.integers(0, 10**6),
    mode=st.sampled_from(["fixed-ar", "tau"]),
    prefill=st.sampled_from(["mixed", "prefill-first", "decode-first"]),
    rate_per_s=st.sampled_from([1.0, 6.0, 300.0]),
    seqs=st.sampled_from([1, 5, 40]),
    leaps=st.booleans(),
)
def test_a_device_of_a_fleet_does_to_the_last_digit_what_it_does_alone_in_a_server(  # a scenario
    seed: int, mode: str, prefill: str, rate_per_s: float, seqs: int, leaps: bool
) -> None:
    scenario = Scenario(devices=3, mode=mode, prefill=prefill, max_num_seqs=seqs, kv_tier="hb", hardware="elmoe3d-4gb")
    outcomes, _ = Simulator(scenario, leaps).serve(mixed(40, seed, rate_per_s))
    for device in range(3):
        here = [each for each in outcomes if each.device == device]
        assert {each.request.id: each.tokens_s for each in here} == one_by_one(scenario, [o.request for o in here])


def test_what_arrives_in_a_stall_is_all_in_the_plan_after_it() -> None:
    scenario = Scenario(mode="fixed-ar", faults=("stall: at=1, for=3",))
    outcomes, records = Simulator(scenario).serve([Request(str(i), at, 64, 50) for i, at in enumerate((0.9, 1.5, 2.5))])
    next_s = min(record.start_s for record in records if record.start_s >= 4.0)
    assert [each.started_s for each in outcomes[1:]] == [next_s] * 2 and next_s < 4.1


def test_a_device_that_has_nothing_to_do_leaves_the_tier_to_the_other() -> None:
    scenario = Scenario(devices=2, shared_ext=2, mode="fixed-ar", router="round-robin")
    (long, _), _ = Simulator(scenario).serve([Request("0", 0.0, 64, 400), Request("1", 0.0, 64, 40)])
    (alone,), _ = Simulator(replace(scenario, devices=1, shared_ext=1)).serve([Request("0", 0.0, 64, 400)])
    assert gaps(long)[-1] == pytest.approx(gaps(alone)[-1])


def test_a_stall_that_is_over_takes_nobody_back_to_its_end() -> None:
    lost = "lost: device=0, at=30, for=1000"
    runs = [
        Simulator(Scenario(devices=2, mode="fixed-ar", faults=faults)).serve([Request("a", 20.0, 200, 3000)])
        for faults in ((lost,), ("stall: device=1, at=1, for=2", lost))
    ]
    [plain], [stalled] = (outcomes for outcomes, _ in runs)
    assert stalled.tokens_s == plain.tokens_s and stalled.tokens_s == sorted(stalled.tokens_s)


def test_steps_tell_how_many_sequences_they_gave_a_token_after_another() -> None:
    requests = [*crowd(3, gap_s=0.2), *(Request(f"p{i}", 0.6, 400, 1) for i in range(4))]
    outcomes, records = Simulator(Scenario(mode="fixed-ar")).serve(requests)
    assert sum(record.decoding * record.steps for record in records) == sum(len(gaps(each)) for each in outcomes)
    assert any(0 < record.decoding < record.batch for record in records)


@pytest.mark.parametrize("fault", ["clock: left=0.9, at=1, for=1", "slow: left=0.5, at=1, for=1"])
def test_a_fault_leaves_the_experts_where_they_are(fault: str) -> None:
    scenario = Scenario(placement="hot", mode="fixed-ar", faults=(fault,))
    _, records = Simulator(scenario).serve([Request("a", 0.0, 200, 400, topic="legal")])
    assert [bool(record.swaps) for record in records].count(True) == 1 and records[0].swaps == 1


@pytest.mark.parametrize("left", [0.1, 0.4])
def test_a_throttled_tier_gives_no_more_to_several_than_it_has(left: float) -> None:
    scenario = Scenario(devices=2, shared_ext=2, hardware="elmoe3d-4gb", mode="fixed-ar", router="round-robin")
    whole, _ = Simulator(scenario).serve(crowd(4, output=60))
    throttled, _ = Simulator(replace(scenario, faults=(f"slow: left={left}",))).serve(crowd(4, output=60))
    slower = max(each.last_s for each in throttled) / max(each.last_s for each in whole)
    assert slower == pytest.approx(1 / left, rel=0.05)


def test_a_request_is_computed_anew_from_any_token_on() -> None:
    """Of what it had released its prompt's first chunk makes less."""
    scenario = Scenario(
        devices=2, draft="elastic", mode="tau", router="round-robin", prefill_chunk=64, prefix_caching=False
    )
    requests = [Request(id, 0.0, 32, 300, seed=seed) for seed, id in enumerate("AB")]
    (first, _), _ = Simulator(scenario).serve(requests)
    for token in range(92, 98):
        at_s = (first.tokens_s[token - 1] + first.tokens_s[token]) / 2
        outcomes, _ = Simulator(replace(scenario, faults=(f"lost: device=0, at={at_s:.6f}",))).serve(requests)
        assert [len(each.tokens_s) for each in outcomes] == [300, 300]
