"""The Ray actors: thin shells, each around one plain object. What they do is tested without Ray."""

import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import ray

from device_model.step import StepCost, StepPlan
from serving.clock import WallClock
from serving.emulated import Emulated
from serving.engine import Engine
from serving.flow import Batch, Chunk, Done, Request
from serving.lpddr import Lpddr
from serving.pricing import Pricer, Traced
from serving.priority import become_realtime, become_urgent, settle
from serving.remote import REPORT_S, Asking, Leasing, Progress, ReleaseSink
from serving.rules import Limits, Rules
from serving.scheduler import Scheduler
from serving.tokens import Tokens
from serving.ways import PLAIN, Way
from serving.wire import Receiver, Sender


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class DeviceModelActor:
    """Answers what steps cost. It keeps nothing, so a restarted one goes on where the last one was."""

    def __init__(self, emulated: Emulated, realtime: bool) -> None:
        become_urgent(realtime)
        self._ways = emulated.load()

    def ways(self, plan: StepPlan, steps: int, ext_bytes_per_s: float | None, depths: Sequence[int]) -> list[Way]:
        return self._ways.ways(plan, steps, ext_bytes_per_s, depths)

    def move(self, to_hb: int, to_ext: int, ext_bytes_per_s: float | None) -> StepCost:
        return self._ways.move(to_hb, to_ext, ext_bytes_per_s)

    def swap(self, plan: StepPlan, before: tuple[float, ...] | None, ext_bytes_per_s: float | None) -> StepCost:
        return self._ways.swap(plan, before, ext_bytes_per_s)


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class LpddrActor:
    """The LPDDR tier of a device."""

    def __init__(self, bytes_per_s: float, realtime: bool) -> None:
        become_urgent(realtime)
        self._tier = Lpddr(bytes_per_s)

    def lease(self, device: int, traffic_bytes: float) -> float:
        return self._tier.lease(device, traffic_bytes)


@ray.remote(num_cpus=0, max_restarts=-1)
class SchedulerActor:
    """The scheduler of a device; pokes it when there is news."""

    def __init__(self, limits: Limits, rules: Rules, realtime: bool) -> None:
        become_urgent(realtime)
        self._limits, self._rules = limits, rules

    def reset(self, device: Any) -> None:
        self._scheduler = Scheduler(self._limits, self._rules)
        self._device = device
        # A first call sets a connection up: not at the first request's expense.
        ray.get(device.poke.remote())

    def submit(self, request: Request) -> None:
        self._scheduler.submit(request)
        self._device.poke.remote()

    def abort(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            self._scheduler.abort(request_id)
        self._device.poke.remote()

    def plan(self, at: float, now: float, last: float, done: Done) -> Batch:
        return self._scheduler.plan(at, now, last, done)


@ray.remote(num_cpus=0, max_restarts=-1, concurrency_groups={"loop": 1, "feed": 1})
class HbXpu:
    """The emulated device: runs the engine's loop against the wall clock and sends its releases to the edge."""

    def __init__(self, index: int, clock: tuple[float, float], edge: str, realtime: bool, emulated: Emulated) -> None:
        """`clock`: its origin in Unix seconds, and its speed."""
        become_urgent(realtime)
        self._index = index
        self._realtime = realtime
        self._emulated = emulated
        self._clock = WallClock(*clock)
        self._sink = ReleaseSink(edge)
        self._feed: Receiver[list[Chunk]] = Receiver(list[Chunk])
        self._engine: Engine | None = None
        self._progress: Progress | None = None
        threading.Thread(target=self._feed.run, args=[self._push], daemon=True).start()
        threading.Thread(target=self._report, daemon=True).start()

    @ray.method(concurrency_group="feed")
    def wire(self, scheduler: Any, model: Any, tier: Any, source: Any, ahead: int) -> str:
        """(Re)connect to the other actors, with no requests; the address that tokens go to."""
        ray.get([model.ways.remote(StepPlan.of((1, 1)), 1, None, (PLAIN,)), tier.lease.remote(self._index, 0.0)])
        self._tokens = Tokens()
        self._progress = Progress(self._tokens, source, ahead)
        self._engine = Engine(
            device=self._index,
            clock=self._clock,
            planner=Asking(scheduler),
            pricer=self._pricer(model),
            tier=Leasing(tier),
            tokens=self._tokens,
            sink=self._sink,
        )
        settle()
        return self._feed.address

    def _pricer(self, model: Any) -> Pricer:
        if self._emulated.trace is not None:
            return Traced(self._emulated.trace, self._tokens, self._clock.speed)
        return self._emulated.pricer(Asking(model))

    @ray.method(concurrency_group="loop")
    def run(self) -> None:
        """The loop: ends only by an error, or with its process."""
        if self._realtime:
            become_realtime()
        engine = self._engine
        assert engine is not None
        engine.at = self._clock.now()
        while True:
            engine.cycle()

    @ray.method(concurrency_group="feed")
    def open(self, request_id: str, position: int) -> None:
        self._tokens.open(request_id, position)

    @ray.method(concurrency_group="feed")
    def close(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            self._tokens.close(request_id)

    @ray.method(concurrency_group="feed")
    def poke(self) -> None:
        if self._engine is not None:
            self._engine.poke()

    @ray.method(concurrency_group="feed")
    def held(self) -> dict[str, tuple[int, list[int]]]:
        return self._tokens.held()

    def _push(self, chunks: list[Chunk]) -> None:
        if self._engine is not None:
            self._engine.push(chunks)

    def _report(self) -> None:
        while True:
            time.sleep(REPORT_S)
            if self._progress is not None:
                self._progress.report()


@ray.remote(num_cpus=0, max_restarts=-1, concurrency_groups={"loop": 1, "feed": 1})
class TokenSource:
    """vLLM in a process of its own."""

    def __init__(self, flags: list[str], token_model: str, ahead: int, niceness: int) -> None:
        from serving.vllm_flags import engine_args, prepare_environment

        os.nice(niceness)
        prepare_environment(token_model)
        from serving.vllm_source import VllmSource

        self._devices: dict[int, tuple[str, Sender[list[Chunk]]]] = {}
        self._source = VllmSource(engine_args(flags), ahead, self._deliver)

    @ray.method(concurrency_group="feed")
    def wire(self, devices: dict[int, str]) -> None:
        """Learn where tokens go: each device's address."""
        self._source.do(lambda: self._connect(devices))
        settle()

    @ray.method(concurrency_group="loop")
    def run(self) -> None:
        """The loop: ends only by an error, or with its process."""
        while True:
            self._source.cycle()

    @ray.method(concurrency_group="feed")
    def warm_up(self, request_id: str, device: int, tokens: int) -> None:
        self._source.warm_up(request_id, device, tokens)

    @ray.method(concurrency_group="feed")
    def add(self, request: Any, device: int, known: list[int]) -> None:
        self._source.add(request, device, known)

    @ray.method(concurrency_group="feed")
    def drop(self, request_ids: list[str]) -> None:
        self._source.drop(request_ids)

    @ray.method(concurrency_group="feed")
    def taken(self, positions: dict[str, int]) -> None:
        self._source.taken(positions)

    @ray.method(concurrency_group="feed")
    def resend(self, request_id: str, position: int) -> None:
        self._source.resend(request_id, position)

    def _connect(self, devices: dict[int, str]) -> None:
        for index, address in devices.items():
            known, sender = self._devices.get(index, (None, None))
            if address == known:
                continue
            if sender is not None:
                sender.close()
            self._devices[index] = (address, Sender(address))

    def _deliver(self, device: int, chunks: list[Chunk]) -> None:
        self._devices[device][1].send(chunks)
