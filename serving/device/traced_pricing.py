"""Steps on a device whose expert cache is real: it holds what was used, and hits or misses what a router chose."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np

from device_model.condition import HEALTHY, Condition
from device_model.device import RooflineDevice
from device_model.load import load_device, places_experts, trace_experts
from device_model.step import IntArray, Seconds, StepCost, StepPlan
from device_model.tiered import TieredDevice
from serving.device.pricing import Priced
from serving.token_model.route_format import format_of
from serving.types import Batch


class TracedDevice(NamedTuple):
    """A device to trace: its system, hardware and model by name, the token model whose routers it follows, and its
    condition."""

    system: str
    hardware: str
    model: str
    token_model: str
    condition: Condition = HEALTHY


class Choices(Protocol):
    """Knows what the emulated model's routers choose: `live_routes.LiveRoutes` of a server's token model, or
    `serving.simulation.recorded_routes.RecordedRoutes` in virtual time."""

    def rows(self, batch: Batch, new: IntArray, context: IntArray) -> tuple[IntArray, int]:
        """Expert ids [tokens, layers, top_k] of a step of `batch`, sequence by sequence: of each the `new` [n] tokens
        after the first `context` [n]; and of how many tokens they are guesses."""
        ...

    def emulate(self, trace: TracedDevice) -> None:
        """Follow a device whose condition has changed."""
        ...


class Traced:
    """Prices steps of a device whose cache holds actual experts, hit or missed by the token model's routes.

    Its state is the content of HB. So it lives with the device, and a device that is started anew finds HB cold.
    """

    def __init__(self, trace: TracedDevice, choices: Choices) -> None:
        """Raise as `check_trace` does."""
        self._device = _cached(trace)
        self._choices = choices
        self._trace = trace
        # As it was when a step was priced last, and how fast its external memory.
        self._then: tuple[TracedDevice, float] | None = None

    def emulate(self, trace: TracedDevice) -> None:
        """Change to another condition; HB keeps what it holds, as far as there is room."""
        device = _cached(trace)
        device.cache = self._device.cache
        self._trace = trace
        self._device = device
        self._choices.emulate(trace)

    def price(self, batch: Batch, ext_bytes_per_s: float) -> Iterator[Priced]:
        """Yield the price of each step by the actual routes of its tokens: experts not in HB are read from EXT."""
        new = np.array(batch.new_tokens, dtype=np.int64)
        context = np.array(batch.context, dtype=np.int64)
        for _ in range(batch.horizon):
            routes, unrouted = self._choices.rows(batch, new, context)
            plan = StepPlan(new, context, routes=routes)
            cost = next(iter(self._device.probe(plan, 1, ext_bytes_per_s)))
            self._device.commit(plan)
            self._then = self._trace, ext_bytes_per_s
            yield Priced(cost, unrouted, plan=plan)
            context = context + new

    def again(self, priced: Priced, steps: int, ext_bytes_per_s: float) -> StepCost:
        """Return the present cost of a step priced earlier, scaled as a step with unknown routes would be: the experts
        that it missed are in HB by now."""
        assert priced.plan is not None and self._then is not None
        plan = replace(priced.plan, routes=None)
        then_s, now_s = _expected_s(plan, *self._then), _expected_s(plan, self._trace, ext_bytes_per_s)
        cost, slower = priced.cost, now_s / then_s
        static_j = cost.energy.static_j * (slower - 1.0)
        return cost._replace(
            latency_s=cost.latency_s * slower,
            energy=cost.energy._replace(static_j=cost.energy.static_j + static_j),
            seconds=Seconds(*(part * slower for part in cost.seconds)),
            stage_energy=cost.stage_energy._replace(target_j=cost.stage_energy.target_j + static_j),
        )


@cache
def _expecting(trace: TracedDevice) -> RooflineDevice:
    return load_device(trace.system, trace.hardware, trace.model, condition=trace.condition)


def _expected_s(plan: StepPlan, trace: TracedDevice, ext_bytes_per_s: float) -> float:
    """Return the seconds that a step takes on a device whose cache is not traced."""
    return float(_expecting(trace).probe(plan, 1, ext_bytes_per_s).latency_s[0])


def check_trace(trace: TracedDevice) -> None:
    """Raise DeviceError where nothing can be traced (no experts, neither a cache nor places of their own for them), and
    UsageError for a token model without experts."""
    if not places_experts(trace.system):
        _cached(trace)
    format_of(trace.token_model)


def _cached(trace: TracedDevice) -> TieredDevice:
    """Return the device with a real cache. Raise DeviceError if it has none."""
    device = load_device(trace.system, trace.hardware, trace.model, condition=trace.condition)
    trace_experts(device)
    assert isinstance(device, TieredDevice)  # others have been refused
    return device
