"""Requests on a device in virtual time, heard of as the edge would."""

from types import SimpleNamespace
from typing import Any

from device_model.load import load_device
from serving.call import Call
from serving.clock import VirtualClock, WallClock
from serving.cluster.observer import EdgeObserver
from serving.device.engine import Engine
from serving.device.live_driver import LiveDriver
from serving.device.pricing import ModelPricer
from serving.device.slow_tier import SlowTier
from serving.device.token_buffer import TokenBuffer
from serving.flight import Flight, unseen
from serving.policies.modes import Bounds, Modes
from serving.policies.step_options import StepOptions
from serving.scheduler.config import Limits
from serving.scheduler.scheduler import Scheduler
from serving.telemetry.tracing.call_trace import CallTrace
from serving.telemetry.tracing.call_traces import CallTraces
from serving.types import Chunk, Release, Request, StepRecord

DEVICE = load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "elastic")
LIMITS = Limits(max_num_seqs=8, max_num_batched_tokens=256, kv_capacity_tokens=DEVICE.kv_capacity_tokens)
LENGTH = 1
ROUTE = "/v1/chat/completions"


class Edge:
    """A device with its scheduler, and the traces of its calls; each comes with a call of its own."""

    def __init__(self, mode: str = "fixed-ar", observers: tuple[EdgeObserver, ...] = ()) -> None:
        self.told: list[CallTrace] = []
        self.records: list[StepRecord] = []
        self.flights: dict[str, Flight] = {}
        # Its time is that of the device, in which it is asked for nothing but `now`.
        self.clock: Any = VirtualClock()
        self.call_traces = CallTraces(self.clock, [self.told.append])
        self.observers = (self.call_traces, *observers)
        self.scheduler = Scheduler(LIMITS)
        self.tokens = TokenBuffer()
        step_options = StepOptions(DEVICE)
        engine = Engine(
            device=0,
            planner=self.scheduler,
            pricer=ModelPricer(
                step_options, Modes.of(mode, () if mode == "fixed-ar" else (step_options.calibrated,), Bounds(tau=2))
            ),
            tier=SlowTier(DEVICE.ext_bytes_per_s),
            tokens=self.tokens,
            sink=self.take,
        )
        self.driver = LiveDriver(engine, self.clock)

    def submit(self, request: Request, call: Call | None = None, fill: bool = True, called: bool = True) -> Flight:
        if call is None and called:
            call = Call(request.arrival_s, route=ROUTE, status="200")
        flight = self.flights[request.id] = Flight(core_request(request), request, 0, call=call)
        for observer in self.observers:
            observer.on_begin(flight)
        self.tokens.open(request.id)
        if fill:
            self.fill(request)
        self.scheduler.submit(request)
        return flight

    def fill(self, request: Request) -> None:
        last = request.max_tokens - 1
        made = [Chunk(request.id, i, [i], LENGTH if i == last else None) for i in range(request.max_tokens)]
        self.driver.push(made)

    def take(self, release: Release) -> None:
        """As `Dispatcher` and `EmulatedCore` do."""
        for id in release.started:
            if (flight := self.flights[id]).started_s is None:
                flight.started_s = release.start_s
        if release.record:
            self.records.append(release.record)
            self.driver.poke()  # One step a cycle, so that a test can do something between two.
        news = unseen(self.flights, release.chunks)
        for observer in self.observers:
            observer.on_release(release, news)
        for flight, chunk in news:
            flight.take(chunk.tokens, release.at_s)
            if chunk.finish is not None:
                self.finish(flight, "length")

    def finish(self, flight: Flight, reason: str) -> None:
        del self.flights[flight.request.id]
        flight.finish = reason
        for observer in self.observers:
            observer.on_finish(flight)
        call = flight.call
        if call and not call.answered and not any(other.call is call for other in self.flights.values()):
            for observer in self.observers:
                observer.on_answer(call)

    def run(self) -> "Edge":
        while self.flights:
            self.driver.cycle()
        return self


def core_request(request: Request) -> Any:
    """As much of vLLM's request as is read. `a-0` and `a-1` are asked for by one prompt."""
    params = SimpleNamespace(temperature=0.5, top_p=1.0)
    return SimpleNamespace(external_req_id=f"chatcmpl-{request.id.partition('-')[0]}", sampling_params=params)


def wall(speed: float) -> WallClock:
    """A clock whose origin was the first of January 2024."""
    return WallClock(1_704_067_200.0, speed)
