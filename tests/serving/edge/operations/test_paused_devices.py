"""Do meters show that devices stand still, once an operator has paused them with what they have?"""

import asyncio
from typing import Any

import pytest

from serving.cluster.device_buffers import DeviceBuffers
from serving.cluster.device_manager import Devices
from serving.cluster.observer import LiveFlights
from serving.edge.operations.gate import Gate
from serving.edge.operations.utility_calls import UtilityCalls
from serving.policies.router import Router
from serving.policies.routing import parse_router
from tests.serving.telemetry.metrics.samples import IDLE_W, Clock, flight, measured, node, record

UNKNOWN: Any = None


class Working(UtilityCalls):
    """The utility calls of a device that has a request, and the metrics that hear of it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.metrics, _ = measured(clock=self.clock)
        live = LiveFlights({}, self.metrics, lambda flight, why: None)
        router = Router(parse_router("least-loaded").policy())
        self.devices = Devices(UNKNOWN, router, live, UNKNOWN, DeviceBuffers({0: node(0)}))
        self.gate = Gate()

    def shutdown(self, timeout: float | None = None) -> None:
        """Nothing was started."""


def test_meters_of_a_device_that_is_kept_paused_show_it_idle() -> None:
    calls = Working()
    metrics, devices = calls.metrics, calls.metrics.devices
    metrics.on_begin(flight())
    metrics.on_step(record(latency_s=1.0))
    calls.clock.until(1.5)
    assert devices.busy_share(0) == pytest.approx(1)
    asyncio.run(calls.pause_scheduler_async("keep"))
    for resumed in (False, True):  # In the end its next step is under way.
        calls.clock.until(600.0 + resumed)
        if resumed:
            asyncio.run(calls.resume_scheduler_async())
        assert devices.busy_share(0) == 0 and devices.power_w(0) == pytest.approx(IDLE_W)
    metrics.on_step(record(start_s=601.0, latency_s=0.25))
    assert devices.busy_share(0) == pytest.approx(0.25)
