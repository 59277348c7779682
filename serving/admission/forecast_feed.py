"""Forecast feed: reports requests, releases, steps and devices to the forecast, live as in virtual time."""

from collections.abc import Callable
from typing import Protocol

from serving.admission.expected_device import expect
from serving.admission.forecast import Forecast
from serving.device.device_spec import DeviceLimits, DeviceSpec
from serving.device.scheduler_config import limits_of
from serving.observer import Observer, TrackedRequest
from serving.scenario.scenario import Scenario
from serving.types import Chunk, Release, StepRecord


class ForecastDevice(Protocol):
    """A device as the forecast knows it; `serving` while it takes requests, `gone` once it never will again."""

    @property
    def index(self) -> int: ...

    @property
    def spec(self) -> DeviceSpec: ...

    @property
    def device_limits(self) -> DeviceLimits: ...

    @property
    def serving(self) -> bool: ...

    @property
    def gone(self) -> bool: ...


class ForecastFeed(Observer[TrackedRequest, ForecastDevice]):
    """Keeps a forecast up to date. `now` is the emulated instant at which requests come to devices."""

    def __init__(self, forecast: Forecast, scenario: Scenario, now: Callable[[], float]) -> None:
        self._forecast, self._scenario, self._now = forecast, scenario, now

    def on_begin(self, flight: TrackedRequest) -> None:
        self._forecast.on_submit(flight.device, flight.request, self._now())

    def on_move(self, flight: TrackedRequest) -> None:
        self._forecast.on_submit(flight.device, flight.resumed, self._now())

    def on_release(self, release: Release, news: list[tuple[TrackedRequest, Chunk]]) -> None:
        self._forecast.on_release(chunk for _, chunk in news)

    def on_step(self, record: StepRecord) -> None:
        self._forecast.on_step(record)

    def on_finish(self, flight: TrackedRequest) -> None:
        self._forecast.on_finish(flight.request.id, flight.made)

    def on_change(self, device: ForecastDevice) -> None:
        """Forecast for a device only while it takes requests."""
        if device.serving:
            limits = limits_of(self._scenario, device.device_limits)
            scenario = self._scenario
            expect(self._forecast, device.index, device.spec, limits, scenario.prefill, scenario.prefill_chunk)
        elif device.gone:
            self._forecast.remove(device.index)
        else:
            self._forecast.close(device.index)
