"""The Ray actors: thin shells, each around one plain object. What they do is tested without Ray."""

import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import ray

from device_model.step import StepCost, StepPlan
from serving.arriving import Arriving
from serving.clock import WallClock
from serving.emulated import Emulated, Figures
from serving.engine import Engine
from serving.flow import NEVER, Batch, Chunk, Done, Release, Request
from serving.lpddr import LEASE_S, Lpddr
from serving.patience import Forgotten
from serving.pricing import Pricer
from serving.priority import become_realtime, become_urgent, settle
from serving.remote import REPORT_S, Asking, Leasing, Progress, ReleaseSink, RemoteModel
from serving.rules import Limits, Rules
from serving.run_folder import share
from serving.scheduler import Scheduler
from serving.tokens import Tokens
from serving.traced import Traced
from serving.ways import PLAIN, Mix, Way, Ways
from serving.wire import Address, Drops, Receiver, Sender, this_node


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class DeviceModelActor:
    """Answers what steps cost, on each kind of device in each condition.

    All that it keeps can be loaded again, so a restarted one goes on where the last one was.
    """

    def __init__(self, fleet: list[Emulated], realtime: bool) -> None:
        become_urgent(realtime)
        self._loaded = {emulated: emulated.load() for emulated in set(fleet)}

    def pulse(self) -> float:
        """Answer, which is what is asked for."""
        return 0.0

    def figures(self, emulated: Emulated) -> Figures:
        """Raises SpecError if there can be no such device."""
        return emulated.figures(self._load(emulated))

    def ways(
        self,
        emulated: Emulated,
        plan: StepPlan,
        steps: int,
        ext_bytes_per_s: float | None,
        depths: Sequence[int],
    ) -> list[Way]:
        return self._load(emulated).ways(plan, steps, ext_bytes_per_s, depths)

    def move(self, emulated: Emulated, to_hb: int, to_ext: int, ext_bytes_per_s: float | None) -> StepCost:
        return self._load(emulated).move(to_hb, to_ext, ext_bytes_per_s)

    def swap(self, emulated: Emulated, plan: StepPlan, before: Mix | None, ext_bytes_per_s: float | None) -> StepCost:
        return self._load(emulated).swap(plan, before, ext_bytes_per_s)

    def _load(self, emulated: Emulated) -> Ways:
        if emulated not in self._loaded:
            self._loaded[emulated] = emulated.load()
        return self._loaded[emulated]


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class LpddrActor:
    """The LPDDR tier of a device, or of several."""

    def __init__(self, bytes_per_s: float, realtime: bool) -> None:
        become_urgent(realtime)
        self._tier = Lpddr(bytes_per_s)

    def pulse(self) -> float:
        return 0.0

    def lease(self, device: int, traffic_bytes: float, elapsed_s: float) -> float:
        return self._tier.lease(device, traffic_bytes, elapsed_s)

    def release(self, device: int, traffic_bytes: float) -> None:
        self._tier.release(device, traffic_bytes)


@ray.remote(num_cpus=0, max_restarts=-1)
class SchedulerActor:
    """The scheduler of a device; pokes it when there is news."""

    def __init__(self, realtime: bool) -> None:
        become_urgent(realtime)
        self._scheduler: Scheduler | None = None

    def pulse(self) -> float:
        return 0.0

    def reset(self, device: Any, limits: Limits, rules: Rules) -> None:
        self._scheduler = Scheduler(limits, rules)
        self._device = device
        # A first call sets a connection up: not at the first request's expense.
        ray.get(device.poke.remote())

    def limit(self, limits: Limits) -> None:
        """Go on with other limits: what no longer fits is preempted at the next plan."""
        if self._scheduler is not None:
            self._scheduler.limit(limits)
            self._device.poke.remote()

    def submit(self, request: Request) -> None:
        # One that was restarted is told of all requests once it is connected.
        if self._scheduler is not None:
            self._scheduler.submit(request)
            self._device.poke.remote()

    def abort(self, request_ids: list[str]) -> None:
        if self._scheduler is not None:
            for request_id in request_ids:
                self._scheduler.abort(request_id)
            self._device.poke.remote()

    def plan(self, at: float, now: float, last: float, done: Done) -> Batch:
        if self._scheduler is None:
            raise Forgotten("The scheduler was restarted.")
        return self._scheduler.plan(at, now, last, done)


@ray.remote(num_cpus=0, max_restarts=-1, concurrency_groups={"loop": 1, "feed": 1})
class HbXpu:
    """The emulated device: runs the engine's loop against the wall clock and sends its releases to the edge."""

    def __init__(
        self, index: int, clock: tuple[float, float], edge: Address, realtime: bool, emulated: Emulated
    ) -> None:
        """`clock`: its origin in Unix seconds, and its speed."""
        become_urgent(realtime)
        self._index = index
        self._realtime = realtime
        self._emulated = emulated
        self._clock = WallClock(*clock)
        self._sink = ReleaseSink(edge)
        if this_node() != edge.node:
            share(edge.folder)
        self._feed: Receiver[list[Chunk]] = Receiver(
            list[Chunk], edge.folder, f"device-{index}", others=edge.keys is not None
        )
        self._drops = Drops()
        self._feed.on_dropped = self._drops.add
        self._engine: Engine | None = None
        self._progress: Progress | None = None
        self._running, self._reported_s = False, time.monotonic()
        threading.Thread(target=self._feed.run, args=[self._push], daemon=True).start()
        threading.Thread(target=self._report, daemon=True).start()

    @ray.method(concurrency_group="feed")
    def pulse(self) -> float:
        """For how many real seconds the loop, the feed, or the report of progress has been overdue."""
        return max(self._clock.overdue_s if self._running else 0.0, self._feed.overdue_s, self._reported_late_s())

    @ray.method(concurrency_group="feed")
    def wire(self, scheduler: Any, model: Any, tier: Any, source: Any, ahead: int) -> Address:
        """(Re)connect to the other actors, with no requests; the address that tokens go to."""
        emulated = self._emulated
        shared = emulated.sharers > 1
        ray.get(
            [model.ways.remote(emulated, StepPlan.of((1, 1)), 1, None, (PLAIN,)), tier.release.remote(self._index, 0.0)]
        )
        self._model = RemoteModel(model, emulated)
        self._leasing = Leasing(tier, shared, emulated.condition.ext_share)
        self._tokens = Tokens()
        self._progress = Progress(self._tokens, source, ahead)
        self._engine = Engine(
            device=self._index,
            clock=self._clock,
            planner=Asking(scheduler),
            pricer=self._pricer(),
            tier=self._leasing,
            tokens=self._tokens,
            sink=self._sink,
            lease_s=LEASE_S if shared else NEVER,
        )
        settle()
        return self._feed.address

    @ray.method(concurrency_group="feed")
    def emulate(self, emulated: Emulated) -> None:
        """Be another device from now on: the same one in another condition."""
        self._emulated = emulated
        if self._engine is None:
            return
        self._model.emulated = emulated
        self._leasing.left = emulated.condition.ext_share
        if isinstance(self._engine.pricer, Traced) and emulated.trace is not None:
            self._engine.pricer.emulate(emulated.trace)
        else:
            # From which batch on drafting pays depends on the condition.
            self._engine.pricer = self._pricer()
        self._engine.change()

    @ray.method(concurrency_group="feed")
    def stall(self, until_s: float) -> None:
        """Stand still until an emulated instant."""
        if self._engine is not None:
            self._engine.stall(until_s)

    def _pricer(self) -> Pricer:
        if self._emulated.trace is not None:
            return Traced(self._emulated.trace, Arriving(self._emulated.trace, self._tokens, self._clock.speed))
        return self._emulated.pricer(self._model)

    @ray.method(concurrency_group="loop")
    def run(self) -> None:
        """The loop: ends only by an error, or with its process."""
        if self._realtime:
            become_realtime()
        engine = self._engine
        if engine is None:
            raise Forgotten("The device was restarted.")
        engine.at = self._clock.now()
        self._running = True
        try:
            while True:
                engine.cycle()
        finally:
            self._running = False

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
    def follow(self, source: Any) -> None:
        """Tell another token source from now on how far this device has got."""
        if self._progress is not None:
            self._progress.follow(source)

    @ray.method(concurrency_group="feed")
    def held(self) -> dict[str, tuple[int, list[int]]]:
        return self._tokens.held()

    def _push(self, chunks: list[Chunk]) -> None:
        if self._engine is not None:
            self._engine.push(chunks)

    def _reported_late_s(self) -> float:
        return max(0.0, time.monotonic() - self._reported_s - REPORT_S)

    def _report(self) -> None:
        while True:
            time.sleep(REPORT_S)
            self._reported_s = time.monotonic()
            if self._progress is not None:
                self._progress.report()
            if dropped := self._drops.take():
                self._sink(Release(self._index, self._clock.now(), [], dropped=dropped))


@ray.remote(num_cpus=0, concurrency_groups={"loop": 1, "feed": 1})
class TokenSource:
    """vLLM in a process of its own. Another one takes its place if it dies (`serving.source_manager`)."""

    def __init__(self, flags: list[str], token_model: str, ahead: int, niceness: int) -> None:
        from serving.vllm_flags import engine_args, prepare_environment

        os.nice(niceness)
        prepare_environment(token_model)
        from serving.token_source.vllm_source import VllmSource

        self._devices: dict[int, tuple[Address, Sender[list[Chunk]]]] = {}
        self._source = VllmSource(engine_args(flags), ahead, self._deliver)

    @ray.method(concurrency_group="feed")
    def pulse(self) -> float:
        """For how many real seconds the loop has been at one step."""
        return self._source.overdue_s

    @ray.method(concurrency_group="feed")
    def wire(self, devices: dict[int, Address]) -> None:
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
    def beyond_known(self) -> list[str]:
        return self._source.beyond_known()

    @ray.method(concurrency_group="feed")
    def resend(self, request_id: str, position: int, device: int) -> None:
        self._source.resend(request_id, position, device)

    def _connect(self, devices: dict[int, Address]) -> None:
        for index in self._devices.keys() - devices.keys():
            self._devices.pop(index)[1].close()
        for index, address in devices.items():
            known, sender = self._devices.get(index, (None, None))
            if address == known:
                continue
            if sender is not None:
                sender.close()
            self._devices[index] = (address, Sender(address))

    def _deliver(self, device: int, chunks: list[Chunk]) -> None:
        # A device that is gone has no address: what was for it goes to another one, once that has asked.
        if device in self._devices:
            self._devices[device][1].send(chunks)
