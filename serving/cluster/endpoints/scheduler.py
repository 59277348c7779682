"""The service of a device's scheduler, called by the edge and by the device, each from another process."""

import threading

import msgspec

from serving.clock import WallClock
from serving.cluster.streams.rpc import RpcTeller
from serving.cluster.streams.sockets import Address
from serving.cluster.supervision.deaths import StateLost
from serving.scheduler.config import Limits, SchedulerRules
from serving.scheduler.scheduler import Scheduler
from serving.types import Batch, Done, Request


class SchedulerService:
    """A service without a scheduler until it is reset: after a restart it is told of all requests once it is
    connected. By `clock` it tells how long the news of arrivals took."""

    def __init__(self, clock: WallClock) -> None:
        self._clock, self._news_s = clock, list[float]()
        self._lock = threading.Lock()
        self._scheduler: Scheduler | None = None
        self._device: RpcTeller | None = None

    def reset(self, device: Address, limits: Limits, rules: SchedulerRules) -> None:
        """Start a new scheduler, for the device with that address."""
        with self._lock:
            if self._device is not None:
                self._device.close()
            self._scheduler, self._device = Scheduler(limits, rules), RpcTeller(device)

    def limit(self, limits: Limits) -> None:
        """Set the limits: sequences that no longer fit are preempted at the next plan."""
        with self._lock:
            if self._scheduler is not None:
                self._scheduler.limit(limits)
                self._poke()

    def submit(self, request: Request) -> None:
        """Submit a request to the scheduler."""
        with self._lock:
            if self._scheduler is not None:
                self._scheduler.submit(request)
                # One that another instance had is no news.
                if not request.released and not request.kv_lost:
                    self._news_s.append(self._clock.late(request.arrival_s))
                self._poke()

    def abort(self, request_ids: list[str]) -> None:
        """Drop requests; ignore unknown ones."""
        with self._lock:
            if self._scheduler is not None:
                for request_id in request_ids:
                    self._scheduler.abort(request_id)
                self._poke()

    def unknown(self, request_ids: list[str]) -> list[str]:
        """Return those of some requests that neither run nor wait; none without a scheduler, which is to be told."""
        with self._lock:
            if (scheduler := self._scheduler) is None:
                return []
            return [id for id in request_ids if id not in scheduler.running and id not in scheduler.waiting]

    def remember(self, request: Request) -> None:
        """Find an ended request's answer again in prompts to come."""
        with self._lock:
            if self._scheduler is not None:
                self._scheduler.remember(request)
                if self._scheduler.rules.kv_events:  # which are told with the next batch
                    self._poke()

    def flush(self) -> bool:
        """Empty the prefix cache, unless sequences run; return whether it is empty. One without a scheduler is."""
        with self._lock:
            if self._scheduler is None:
                return True
            done = self._scheduler.flush()
            self._poke()
            return done

    def plan(self, at_s: float, now_s: float, last_s: float, done: Done) -> Batch:
        """Return the next batch, as `Scheduler.plan` does. Raise StateLost if this was not reset since its restart."""
        with self._lock:
            if self._scheduler is None:
                raise StateLost("The scheduler was restarted.")
            batch = self._scheduler.plan(at_s, now_s, last_s, done)
            if self._news_s and batch.ids:
                batch, self._news_s = msgspec.structs.replace(batch, news_s=self._news_s), []
            return batch

    def _poke(self) -> None:
        assert self._device is not None
        self._device.tell("poke")
