"""The Ray actors: thin shells, each around one plain object. What they do is tested without Ray."""

from collections.abc import Sequence
from typing import Any

import ray

from device_model.step import StepCost, StepPlan
from serving.cluster.supervision.backoff import Forgotten
from serving.device.device_spec import DeviceLimits, DeviceSpec
from serving.device.lpddr import Lpddr
from serving.policies.step_options import Mix, StepOption, StepOptions
from serving.process.process_priority import become_urgent
from serving.scheduler.config import Limits, SchedulerRules
from serving.scheduler.scheduler import Scheduler
from serving.types import Batch, Done, Request


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class DeviceModelActor:
    """Answers what steps cost, on each kind of device in each condition.

    All that it keeps can be loaded again, so a restarted one goes on where the last one was.
    """

    def __init__(self, fleet: list[DeviceSpec], realtime: bool) -> None:
        become_urgent(realtime)
        self._loaded = {spec: spec.load() for spec in set(fleet)}

    def pulse(self) -> float:
        """Answer, which is what is asked for."""
        return 0.0

    def device_limits(self, spec: DeviceSpec) -> DeviceLimits:
        """Raises DeviceError if there can be no such device."""
        return spec.device_limits(self._load(spec))

    def price(
        self,
        spec: DeviceSpec,
        plan: StepPlan,
        steps: int,
        ext_bytes_per_s: float | None,
        depths: Sequence[int],
    ) -> list[StepOption]:
        return self._load(spec).price(plan, steps, ext_bytes_per_s, depths)

    def move(self, spec: DeviceSpec, to_hb: int, to_ext: int, ext_bytes_per_s: float | None) -> StepCost:
        return self._load(spec).move(to_hb, to_ext, ext_bytes_per_s)

    def swap(self, spec: DeviceSpec, plan: StepPlan, before: Mix | None, ext_bytes_per_s: float | None) -> StepCost:
        return self._load(spec).swap(plan, before, ext_bytes_per_s)

    def _load(self, spec: DeviceSpec) -> StepOptions:
        if spec not in self._loaded:
            self._loaded[spec] = spec.load()
        return self._loaded[spec]


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

    def reset(self, device: Any, limits: Limits, rules: SchedulerRules) -> None:
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

    def plan(self, at_s: float, now_s: float, last_s: float, done: Done) -> Batch:
        if self._scheduler is None:
            raise Forgotten("The scheduler was restarted.")
        return self._scheduler.plan(at_s, now_s, last_s, done)
