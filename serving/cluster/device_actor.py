"""The Ray actor of an emulated device: a thin shell around the engine and its buffers."""

import threading
import time
from collections.abc import Callable
from typing import Any

import ray

from device_model.step import StepPlan
from serving.clock import ClockOrigin, WallClock
from serving.cluster.actor_proxies import ReleaseSink, RemoteModel, RemotePlanner, TierLease
from serving.cluster.endpoints.device import DeviceService
from serving.cluster.endpoints.rpc_endpoint import RpcEndpoint, joined_folder
from serving.cluster.release_packer import ReleasePacker
from serving.cluster.sources.progress_reports import REPORT_S, ProgressReports
from serving.cluster.streams.arrival_board import ArrivalBoard
from serving.cluster.streams.rpc import RpcClient
from serving.cluster.streams.sockets import Address
from serving.cluster.supervision.deaths import StateLost
from serving.cluster.supervision.failed_restart import started_again
from serving.cluster.supervision.heartbeat import Heartbeat
from serving.device.device_spec import DeviceSpec, Followed
from serving.device.drafts.live_texts import LiveTexts
from serving.device.engine import Engine
from serving.device.live_driver import LiveDriver
from serving.device.live_routes import LiveRoutes
from serving.device.routed_pricing import TracedDevice
from serving.device.token_buffer import TokenBuffer
from serving.policies.step_option import PLAIN
from serving.process.main_thread import rest_between_looks
from serving.process.process_priority import become_realtime, become_urgent, settle, wake_on_time


@ray.remote(num_cpus=0, max_restarts=-1, concurrency_groups={"loop": 1, "feed": 1, "pulse": 1})
class HbXpu:
    """The actor of an emulated device: runs the engine's loop by the wall clock and sends its releases to the edge."""

    @started_again
    def __init__(  # all that stays the same however often it is connected
        self, index: int, clock: ClockOrigin, edge: Address, realtime: bool, ahead: int
    ) -> None:
        """`clock`: when and how fast emulated time began. `ahead`: tokens that sources may be ahead of it."""
        become_urgent(realtime)
        self._index = index
        self._realtime = realtime
        self._clock = WallClock(*clock)
        self._sink = ReleaseSink(edge, self._clock)
        self._board = ArrivalBoard(joined_folder(edge))
        self._service = service = DeviceService(index, self._sink)
        self._running, self._reported_s = False, time.monotonic()
        methods: list[Callable[..., Any]] = [
            service.open,
            service.close,
            service.tell_unknown,
            service.awaited,
            service.unowed,
            service.push,
            service.poke,
            service.emulate,
            service.stall,
        ]
        self._endpoint = RpcEndpoint(f"device-{index}", edge, methods, self._overdue_s)
        self._clients: list[RpcClient] = []
        self._driver: LiveDriver | None = None
        self._progress = ProgressReports(index, ahead)
        threading.Thread(target=self._report, daemon=True).start()
        rest_between_looks()

    @ray.method(concurrency_group="pulse")
    def pulse(self) -> Heartbeat:
        """Return the heartbeat of the loop, of calls, and of the reports of progress.

        On a thread of its own: a device that waits to be connected is not silent, though it does nothing.
        """
        return self._endpoint.pulse()

    @ray.method(concurrency_group="feed")
    def address(self) -> Address:
        """Return the address for calls and tokens."""
        return self._endpoint.address

    @ray.method(concurrency_group="feed")
    def connect(self, spec: DeviceSpec, scheduler: Any, model: Any, tier: Any, sources: dict[int, Address]) -> None:
        """(Re)connect to the other actors, with no requests, and emulate a spec; `sources`: the token sources'
        addresses, by index."""
        for client in self._clients:
            client.close()
        if self._driver is not None:
            self._driver.leave()
        self._clients = [RpcClient(actor) for actor in (scheduler, model, tier)]
        to_scheduler, to_model, to_tier = self._clients
        self._model = RemoteModel(to_model, spec)
        self._model.price(StepPlan.of((1, 1)), 1, None, (PLAIN,))
        self._lease = TierLease(to_tier, spec.sharers > 1, spec.condition.ext_share)
        self._lease.release(self._index)
        self._tokens = TokenBuffer()
        self._sink.forget()
        self._progress.begin(self._tokens, sources)
        engine = Engine(
            device=self._index,
            planner=RemotePlanner(to_scheduler),
            pricer=spec.pricer(self._model, self._followed),
            tier=self._lease,
            tokens=self._tokens,
            sink=self._sink,
            packer=ReleasePacker(self._tokens, self._sink),
            lease_s=spec.lease_s,
        )
        self._driver = LiveDriver(engine, self._clock, self._sink.flush, self._board.earliest_s)
        self._service.connect(self._driver, self._tokens, self._reprice)
        settle()

    def _reprice(self, engine: Engine, spec: DeviceSpec) -> None:
        self._model.spec = spec
        self._lease.share = spec.condition.ext_share
        engine.pricer = spec.repriced(engine.pricer, self._model, self._followed)

    def _followed(self, trace: TracedDevice) -> Followed:
        tokens, clock = self._tokens, self._clock
        routes = LiveRoutes(trace, tokens, clock.speed, clock.note_wait)
        return Followed(routes, lambda: LiveTexts(trace, tokens))

    @ray.method(concurrency_group="loop")
    def run(self) -> None:
        """Run the loop, which ends only by an error, or with its process. Raise StateLost before `connect`, and after
        another one."""
        wake_on_time()
        if self._realtime:
            become_realtime()
        driver = self._driver
        if driver is None:
            raise StateLost("The device was restarted.")
        driver.engine.at_s = self._clock.now()
        self._clock.until(driver.engine.at_s)  # What it waited for before, in another run, is not overdue.
        self._running = True
        try:
            # Where the edge only thinks that this loop has ended, it has connected another driver.
            while self._driver is driver:
                driver.cycle()
            raise StateLost("The device was connected anew.")
        finally:
            self._running = False

    @ray.method(concurrency_group="feed")
    def follow(self, sources: dict[int, Address]) -> None:
        """Report this device's progress to the token sources at these addresses from now on."""
        self._progress.follow(sources)

    @ray.method(concurrency_group="feed")
    def held(self) -> dict[str, tuple[int, list[int]]]:
        """Return each request's tokens that were taken, counted, and those that are ready; tell of the former first."""
        self._sink.flush_all()
        return self._tokens.held()

    def _overdue_s(self) -> float:
        reported_late_s = time.monotonic() - self._reported_s - REPORT_S
        return max(0.0, self._clock.overdue_s if self._running else 0.0, reported_late_s)

    def _report(self) -> None:
        while True:
            time.sleep(REPORT_S)
            self._reported_s = time.monotonic()
            self._progress.report()
            # Whoever is to plan the next step may be long in answering, and there may be none.
            self._sink.flush_all()
