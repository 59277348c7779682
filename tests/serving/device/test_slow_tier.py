"""Is a shared LPDDR tier shared fairly, and never granted more than there is?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.load import load_device
from serving.clock import VirtualClock
from serving.device.engine import Engine
from serving.device.live_driver import LiveDriver
from serving.device.pricing import ModelPricer
from serving.device.slow_tier import LEASE_S, SlowTier
from serving.device.token_buffer import TokenBuffer
from serving.policies.modes import Modes
from serving.policies.step_options import StepOptions
from serving.scheduler.scheduler import Limits, Scheduler
from serving.types import NEVER, Chunk, Release, Request

B = 100.0
ELAPSED_S = 0.05
duties = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8)


def settled(wanted: list[float]) -> tuple[SlowTier, list[float]]:
    """A tier whose devices have the duties `wanted`, and what each is granted."""
    tier = SlowTier(B)
    granted = [B] * len(wanted)
    for _ in range(3):
        granted = [
            tier.lease(i, duty * rate * ELAPSED_S, ELAPSED_S)
            for i, (duty, rate) in enumerate(zip(wanted, granted, strict=True))
        ]
    return tier, granted


@given(duties)
def test_no_more_is_drawn_than_there_is(wanted: list[float]) -> None:
    _, granted = settled(wanted)
    assert sum(duty * rate for duty, rate in zip(wanted, granted, strict=True)) <= B * (1 + 1e-9)


@given(duties)
def test_each_has_at_least_its_fair_share_and_who_is_alone_has_all(wanted: list[float]) -> None:
    _, granted = settled(wanted)
    assert all(rate >= B / len(wanted) * (1 - 1e-9) for rate in granted)
    if not any(wanted[1:]):
        assert granted[0] == B


@given(st.integers(1, 8))
def test_those_that_always_draw_have_equal_shares(devices: int) -> None:
    _, granted = settled([1.0] * devices)
    assert granted == pytest.approx([B / devices] * devices)


@given(duties)
def test_who_is_idle_costs_nothing_from_then_on(wanted: list[float]) -> None:
    tier, _ = settled(wanted)
    for device in range(1, len(wanted)):
        tier.release(device)
    assert tier.fair_bytes_per_s(0) == B


def test_one_that_has_just_begun_counts_as_drawing_always() -> None:
    tier = SlowTier(B)
    assert tier.lease(0, 0.0, 0.0) == B
    assert tier.lease(1, 0.0, 0.0) == B / 2
    assert tier.lease(0, 0.1 * B * ELAPSED_S, ELAPSED_S) == B / 2
    assert tier.fair_bytes_per_s(1) == pytest.approx(B / 1.1)


DEVICE = load_device("elmoe3d", "elmoe3d-4gb", "qwen3-30b-a3b")
LIMITS = Limits(max_num_seqs=8, max_num_batched_tokens=512, kv_capacity_tokens=DEVICE.kv_capacity_tokens)
OUTPUT = 60


class Sharer:
    """A device on a shared tier, in virtual time of its own."""

    def __init__(self, index: int, tier: SlowTier, arrivals: list[float]) -> None:
        self.releases: list[Release] = []
        self.wanted = len(arrivals)
        scheduler, tokens = Scheduler(LIMITS), TokenBuffer()
        self.clock = VirtualClock()
        engine = Engine(
            index,
            scheduler,
            ModelPricer(StepOptions(DEVICE), Modes.of("fixed-ar", ())),
            tier,
            tokens,
            self.releases.append,
        )
        engine.lease_s = LEASE_S
        self.driver = LiveDriver(engine, self.clock)
        for n, at in enumerate(arrivals):
            request = Request(f"{index}-{n}", at, 200, OUTPUT)
            tokens.open(request.id)
            tokens.push([Chunk(request.id, i, [i], 1 if i == OUTPUT - 1 else None) for i in range(OUTPUT)])
            scheduler.submit(request)

    @property
    def done(self) -> bool:
        return sum(chunk.finish is not None for release in self.releases for chunk in release.chunks) == self.wanted

    def steps_s(self, phase: str) -> list[float]:
        return [r.record.latency_s for r in self.releases if r.record is not None and r.record.phase == phase]


def run(*sharers: Sharer) -> None:
    """Each device that is not done, as far as the one that is least far."""
    while pending := [sharer for sharer in sharers if not sharer.done]:
        min(pending, key=lambda sharer: sharer.clock.now()).driver.cycle()
    for sharer in sharers:
        sharer.driver.cycle()


def test_contention_shows_in_step_times() -> None:
    alone = Sharer(0, SlowTier(DEVICE.ext_bytes_per_s), [0.0] * 4)
    run(alone)
    tier = SlowTier(DEVICE.ext_bytes_per_s)
    pair = [Sharer(index, tier, [0.0] * 4) for index in range(2)]
    run(*pair)
    for sharer in pair:
        slower = sum(sharer.steps_s("decode")) / sum(alone.steps_s("decode"))
        assert 1.3 < slower < 2.0
    idle = Sharer(1, tier, [])
    again = Sharer(0, tier, [0.0] * 4)
    run(idle, again)
    assert again.steps_s("decode") == pytest.approx(alone.steps_s("decode"))


def test_a_device_that_comes_in_slows_the_other_down_within_a_lease() -> None:
    tier = SlowTier(DEVICE.ext_bytes_per_s)
    first, second = Sharer(0, tier, [0.0]), Sharer(1, tier, [0.4])
    run(first, second)
    steps = [r.record for r in first.releases if r.record is not None and r.record.phase == "decode"]
    before = [step.latency_s for step in steps if step.start_s < 0.39]
    after = [step.latency_s for step in steps if 0.4 + 2 * LEASE_S < step.start_s < 0.4 + 4 * LEASE_S]
    assert before and after and min(after) > max(before) * 1.05


def test_a_tier_of_ones_own_is_leased_for_as_long_as_the_plan_holds() -> None:
    sharer = Sharer(0, SlowTier(DEVICE.ext_bytes_per_s), [0.0])
    sharer.driver.engine.lease_s = NEVER
    sharer.driver.cycle()
    sharer.driver.cycle()
    assert len(sharer.releases) == OUTPUT
