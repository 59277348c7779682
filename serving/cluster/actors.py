"""The Ray actors: thin shells, each around one plain object, which is tested without Ray."""

from collections.abc import Callable
from typing import Any

import ray

from serving.clock import ClockOrigin, WallClock
from serving.cluster.endpoints.rpc_endpoint import RpcEndpoint
from serving.cluster.endpoints.scheduler import SchedulerService
from serving.cluster.endpoints.tier import TierService
from serving.cluster.streams.sockets import Address
from serving.cluster.supervision.failed_restart import started_again
from serving.cluster.supervision.heartbeat import Heartbeat
from serving.device.device_models import DeviceModels
from serving.device.device_spec import DeviceLimits, DeviceSpec
from serving.process.main_thread import rest_between_looks
from serving.process.process_priority import become_urgent
from serving.scheduler.config import Limits, SchedulerRules

CALLS = "calls"
OWN_THREAD = {CALLS: 1}
"""Calls of Ray's run on a thread of their own, where the main thread rests."""


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class DeviceModelActor:
    """The device model's actor: it prices steps on each kind of device in each condition."""

    @started_again
    def __init__(self, fleet: list[DeviceSpec], realtime: bool, edge: Address) -> None:
        become_urgent(realtime)
        self._models = models = DeviceModels(fleet)
        self._endpoint = RpcEndpoint(
            "model", edge, [models.price, models.draft, models.move, models.swap, models.token_costs]
        )
        # Its main thread takes no rests: a fault waits for the limits of the device that it makes.

    def pulse(self) -> Heartbeat:
        return self._endpoint.pulse()

    def address(self) -> Address:
        """Return the address at which the actor is called."""
        return self._endpoint.address

    def device_limits(self, spec: DeviceSpec) -> DeviceLimits:
        """Return the limits of a device. Raise DeviceError or UsageError if there can be no such device."""
        return self._models.device_limits(spec)


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, concurrency_groups=OWN_THREAD)
class LpddrActor:
    """The actor of a slow tier, of one device or several: `index` is that of the first."""

    @started_again
    def __init__(self, index: int, bytes_per_s: float, realtime: bool, edge: Address) -> None:
        become_urgent(realtime)
        self._service = service = TierService(bytes_per_s)
        self._endpoint = RpcEndpoint(f"lpddr-{index}", edge, [service.lease, service.release])
        rest_between_looks()

    @ray.method(concurrency_group=CALLS)
    def pulse(self) -> Heartbeat:
        return self._endpoint.pulse()

    @ray.method(concurrency_group=CALLS)
    def address(self) -> Address:
        """Return the address at which the actor is called."""
        return self._endpoint.address

    @ray.method(concurrency_group=CALLS)
    def release(self, device: int) -> None:
        """End a device's lease, for the edge once the device is gone."""
        self._service.release(device)


@ray.remote(num_cpus=0, max_restarts=-1, concurrency_groups=OWN_THREAD)
class SchedulerActor:
    """The actor of a device's scheduler; it pokes the device when its requests or limits have changed."""

    @started_again
    def __init__(self, index: int, clock: ClockOrigin, realtime: bool, edge: Address) -> None:
        become_urgent(realtime)
        self._service = service = SchedulerService(WallClock(*clock))
        plans: list[Callable[..., Any]] = [service.limit, service.plan]
        requests: list[Callable[..., Any]] = [service.submit, service.abort, service.remember, service.unknown]
        self._endpoint = RpcEndpoint(f"scheduler-{index}", edge, [*plans, *requests])
        rest_between_looks()

    @ray.method(concurrency_group=CALLS)
    def pulse(self) -> Heartbeat:
        return self._endpoint.pulse()

    @ray.method(concurrency_group=CALLS)
    def address(self) -> Address:
        """Return the address at which the actor is called."""
        return self._endpoint.address

    @ray.method(concurrency_group=CALLS)
    def reset(self, device: Address, limits: Limits, rules: SchedulerRules) -> None:
        """Schedule a device anew, as if it had never had a request."""
        self._service.reset(device, limits, rules)

    @ray.method(concurrency_group=CALLS)
    def flush(self) -> bool:
        """Empty the device's prefix cache, unless sequences run; return whether it is empty."""
        return self._service.flush()
