"""The emulation loop: the same workload gives the same schedule in virtual, scaled and real time."""

import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.load import load_device
from serving.clock import Clock, VirtualClock, WallClock
from serving.device.engine import Engine
from serving.device.live_driver import LiveDriver
from serving.device.pending_steps import PendingSteps
from serving.device.pricing import ModelPricer
from serving.device.slow_tier import SlowTier
from serving.device.token_buffer import TokenBuffer
from serving.policies.modes import Modes
from serving.policies.step_options import StepOptions
from serving.scheduler.config import Limits
from serving.scheduler.scheduler import Scheduler
from serving.types import Chunk, Release, Request
from tests.examples import examples

DEVICE = load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b")
LIMITS = Limits(max_num_seqs=8, max_num_batched_tokens=256, kv_capacity_tokens=DEVICE.kv_capacity_tokens)
LENGTH = 1

# What a client sees of a schedule: when, and which token of which request.
Schedule = list[tuple[float, list[tuple[str, int]]]]


def chunks(request: Request) -> list[Chunk]:
    last = request.max_tokens - 1
    return [Chunk(request.id, i, [i], finish=LENGTH if i == last else None) for i in range(request.max_tokens)]


class Bench:
    """A device with a real scheduler, device model and LPDDR tier, fed with stamped requests."""

    def __init__(self, clock: Clock, requests: list[Request], fill: bool = True) -> None:
        self.requests = len(requests)
        self.scheduler = Scheduler(LIMITS)
        self.tokens = TokenBuffer()
        self.releases: list[Release] = []
        engine = Engine(
            device=0,
            planner=self.scheduler,
            pricer=ModelPricer(StepOptions(DEVICE), Modes.of("fixed-ar", ())),
            tier=SlowTier(DEVICE.ext_bytes_per_s),
            tokens=self.tokens,
            sink=self.releases.append,
        )
        self.clock = clock
        self.driver = LiveDriver(engine, clock)
        for request in requests:
            self.tokens.open(request.id)
            if fill:
                self.tokens.push(chunks(request))
            self.scheduler.submit(request)

    def run(self) -> "Bench":
        while len(self.ended) < self.requests:
            self.driver.cycle()
        return self

    @property
    def ended(self) -> set[str]:
        return {chunk.request_id for r in self.releases for chunk in r.chunks if chunk.finish is not None}

    @property
    def schedule(self) -> Schedule:
        return [(r.at_s, [(chunk.request_id, chunk.first) for chunk in r.chunks]) for r in self.releases]


def workload(*arrivals: float, prompt: int = 100, output: int = 12) -> list[Request]:
    return [Request(str(i), at, prompt, output) for i, at in enumerate(arrivals)]


REQUESTS = workload(0.0, 0.01, 0.02, 0.5, 0.5, 2.0)


@pytest.mark.parametrize("speed", [1.0, 7.0, 1000.0])
def test_wall_time_gives_the_schedule_of_virtual_time(speed: float) -> None:
    virtual = Bench(VirtualClock(), REQUESTS).run()
    wall = Bench(WallClock(time.time(), speed), REQUESTS).run()
    assert wall.schedule == virtual.schedule


def test_emulated_time_is_the_sum_of_modelled_latencies_and_of_waits_for_arrivals() -> None:
    releases = Bench(VirtualClock(), workload(0.0, 9.0)).run().releases
    at = 0.0
    for release in releases:
        assert release.record is not None
        at = max(at, release.record.start_s) + release.record.latency_s
        assert release.at_s == pytest.approx(at, rel=1e-12)
    starts = {id: release.start_s for release in releases for id in release.started}
    assert starts == {"0": 0.0, "1": 9.0}


def test_a_decode_step_costs_what_the_device_model_says() -> None:
    from device_model.step import StepPlan

    releases = Bench(VirtualClock(), workload(0.0, prompt=1000, output=5)).run().releases
    records = [release.record for release in releases if release.record is not None]
    want = [DEVICE.probe(StepPlan.of((1, 1000 + i))).latency_s[0] for i in range(4)]
    decode = [record.latency_s for record in records if record.phase == "decode"]
    assert decode == pytest.approx(want, rel=1e-9)


def test_an_underrun_is_counted_and_its_token_leaves_when_it_comes() -> None:
    bench = Bench(VirtualClock(), workload(0.0, output=2), fill=False)
    bench.driver.cycle()
    record = bench.releases[-1].record
    assert record is not None
    assert (record.underruns, bench.releases[-1].chunks) == (1, [])
    bench.driver.push(chunks(Request("0", 0.0, 100, 2)))
    assert [chunk.first for chunk in bench.releases[-1].chunks] == [0]
    assert bench.releases[-1].record is None
    bench.run()
    assert [chunk.first for chunk in bench.releases[-1].chunks] == [1]


def test_news_end_a_horizon() -> None:
    bench = Bench(VirtualClock(), workload(0.0, output=60))
    poke_after(bench, releases=5)
    bench.driver.cycle()
    bench.driver.cycle()
    assert len(bench.releases) == 5
    bench.run()
    assert len(bench.releases) == 60


def poke_after(bench: Bench, releases: int) -> None:
    sink: Callable[[Release], None] = bench.driver.engine.sink

    def counting(release: Release) -> None:
        sink(release)
        if len(bench.releases) == releases:
            bench.driver.poke()

    bench.driver.engine.sink = counting


@examples(25)
@given(
    st.lists(
        st.tuples(st.floats(0, 5, allow_subnormal=False), st.integers(1, 400), st.integers(1, 30)),
        min_size=1,
        max_size=15,
    )
)
def test_every_token_is_released_once_in_order_and_never_before_its_request_came(
    drawn: list[tuple[float, int, int]],
) -> None:
    requests = [Request(str(i), *each) for i, each in enumerate(drawn)]
    bench = Bench(VirtualClock(), requests).run()
    seen: dict[str, list[int]] = {r.id: [] for r in requests}
    arrivals = {r.id: r.arrival_s for r in requests}
    for at, tokens in bench.schedule:
        for id, position in tokens:
            assert at > arrivals[id]
            seen[id].append(position)
    assert seen == {r.id: list(range(r.max_tokens)) for r in requests}
    instants = [at for at, _ in bench.schedule]
    assert instants == sorted(instants)


def test_overdue_tokens_never_overtake_those_of_a_later_step() -> None:
    (request,) = workload(0.0, output=4)
    bench = Bench(VirtualClock(), [request], fill=False)
    first, *rest = chunks(request)
    engine, released = bench.driver.engine, bench.releases
    step: list[threading.Thread] = []

    def sink(release: Release) -> None:
        if release.record is None and not step:
            # While overdue tokens are on their way, the next step is over, in the loop's own thread.
            step.append(threading.Thread(target=lambda: steps.make()))
            step[0].start()
            step[0].join(0.2)
        released.append(release)

    engine.sink = sink
    steps = PendingSteps(engine, engine.plan(0.0), leaps=False)
    # The prompt's step has an underrun; what comes late is released at once, and what the next step gives lies ready.
    steps.make()
    steps = PendingSteps(engine, engine.plan(steps.end_s), leaps=False)
    engine.push([first, *rest], steps.end_s)
    step[0].join()
    assert [chunk.first for release in released for chunk in release.chunks] == [0, 1]
