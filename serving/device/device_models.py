"""The device models of a fleet, for all of its devices: one of each kind in each condition."""

import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache

from device_model.step import StepCost, StepPlan
from serving.device.device_spec import DeviceLimits, DeviceSpec
from serving.policies.placed_plan import Mix
from serving.policies.step_option import DraftedStep, Progress, StepOption
from serving.policies.turnover import CostQuestion, TokenCost
from serving.scenario.fleet import MOST_DEVICES

# Models that are kept: one of each device of a fleet, in a condition of its own, and as many conditions before those.
KEPT = 2 * MOST_DEVICES


class DeviceModels:
    """The device models of a fleet, for several threads: each prices the steps of its devices.

    All that is kept can be loaded again, so another process goes on where the last one was.
    """

    def __init__(self, fleet: Iterable[DeviceSpec]) -> None:
        """Load the models of a fleet. Raise DeviceError or UsageError if there can be no such device."""
        self._lock = threading.Lock()
        self._load = lru_cache(KEPT)(DeviceSpec.load)
        for spec in set(fleet):
            self._load(spec)

    def device_limits(self, spec: DeviceSpec) -> DeviceLimits:
        """Return what a device can hold. Raise DeviceError or UsageError if there can be no such device."""
        with self._lock:
            return spec.device_limits(self._load(spec))

    def price(
        self,
        spec: DeviceSpec,
        plan: StepPlan,
        steps: int,
        ext_bytes_per_s: float | None,
        depths: Sequence[int],
    ) -> list[StepOption]:
        """Price the next steps of a device, as `StepOptions.price` does."""
        with self._lock:
            return self._load(spec).price(plan, steps, ext_bytes_per_s, depths)

    def draft(
        self,
        spec: DeviceSpec,
        plan: StepPlan,
        progress: Progress,
        steps: int,
        ext_bytes_per_s: float | None,
        depth: int,
    ) -> list[DraftedStep]:
        """Price the next steps of a device that drafts, as `StepOptions.draft` does."""
        with self._lock:
            return self._load(spec).draft(plan, progress, steps, ext_bytes_per_s, depth)

    def move(self, spec: DeviceSpec, to_hb: int, to_ext: int, ext_bytes_per_s: float | None) -> StepCost:
        """Return the cost of moving KV caches between a device's tiers, as `StepOptions.move` does."""
        with self._lock:
            return self._load(spec).move(to_hb, to_ext, ext_bytes_per_s)

    def swap(
        self, spec: DeviceSpec, plan: StepPlan, before: Mix | None, depth: int, ext_bytes_per_s: float | None
    ) -> StepCost:
        """Return the cost of placing a plan's experts in a device's HB, as `StepOptions.swap` does."""
        with self._lock:
            return self._load(spec).swap(plan, before, depth, ext_bytes_per_s)

    def token_costs(self, spec: DeviceSpec, depths: tuple[int, ...], question: CostQuestion) -> list[TokenCost]:
        """Return what a token costs a device later, as `StepOptions.token_costs` does."""
        with self._lock:
            return self._load(spec).token_costs(depths, question)
