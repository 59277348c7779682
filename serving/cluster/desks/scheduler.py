"""A device's scheduler, called by the edge and by the device, each from another process."""

import threading

from serving.cluster.streams.rpc import RpcTeller
from serving.cluster.streams.sockets import Address
from serving.cluster.supervision.backoff import Forgotten
from serving.scheduler.config import Limits, SchedulerRules
from serving.scheduler.scheduler import Scheduler
from serving.types import Batch, Done, Request


class SchedulerDesk:
    """Has none until it is reset: one that was restarted is told of all requests once it is connected."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scheduler: Scheduler | None = None
        self._device: RpcTeller | None = None

    def reset(self, device: Address, limits: Limits, rules: SchedulerRules) -> None:
        """Have a new scheduler, of the device with that address."""
        with self._lock:
            if self._device is not None:
                self._device.close()
            self._scheduler, self._device = Scheduler(limits, rules), RpcTeller(device)

    def limit(self, limits: Limits) -> None:
        """Go on with other limits: what no longer fits is preempted at the next plan."""
        with self._lock:
            if self._scheduler is not None:
                self._scheduler.limit(limits)
                self._poke()

    def submit(self, request: Request) -> None:
        """Take a request on."""
        with self._lock:
            if self._scheduler is not None:
                self._scheduler.submit(request)
                self._poke()

    def abort(self, request_ids: list[str]) -> None:
        """Drop requests, those that are not there as well."""
        with self._lock:
            if self._scheduler is not None:
                for request_id in request_ids:
                    self._scheduler.abort(request_id)
                self._poke()

    def plan(self, at_s: float, now_s: float, last_s: float, done: Done) -> Batch:
        """As of `Scheduler`. Raises Forgotten if it was not reset since it was restarted."""
        with self._lock:
            if self._scheduler is None:
                raise Forgotten("The scheduler was restarted.")
            return self._scheduler.plan(at_s, now_s, last_s, done)

    def _poke(self) -> None:
        assert self._device is not None
        self._device.tell("poke")
