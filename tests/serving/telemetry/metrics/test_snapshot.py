"""Does a look at many devices cost no more a device than one at few, and leave the metrics as they are?"""

from collections import defaultdict
from collections.abc import Callable, ItemsView

import pytest

from serving.cluster.node import State
from serving.telemetry.metrics import Metrics
from serving.telemetry.metrics.families import Counters, Gauges, Labels
from serving.telemetry.metrics.snapshot import status_of
from tests.serving.telemetry.metrics.samples import Clock, all_steps, measured, node, record


class CountedClock(Clock):
    """Counts how often it is asked, as each device asks what it has drawn until now."""

    asked = 0

    def now(self) -> float:
        self.asked += 1
        return super().now()


class CountedSeries(defaultdict[Labels, float]):
    """Counts the series that are gone through."""

    read = 0

    def items(self) -> ItemsView[Labels, float]:
        self.read += len(self)
        return super().items()


def work(devices: int, look: Callable[[Metrics], object]) -> tuple[int, int]:
    """Return how many series of steps and devices one look goes through, and how often it asks for the time."""
    clock = CountedClock()
    metrics, _ = measured(devices, clock)
    for device in range(devices):
        all_steps(metrics, device)
    counted = []
    for family in (each for part in (metrics.steps, metrics.devices) for each in vars(part).values()):
        if isinstance(family, Counters | Gauges):
            counted.append(series := CountedSeries(float, family.values))
            family.values = series
    clock.asked = 0
    look(metrics)
    return sum(series.read for series in counted), clock.asked


@pytest.mark.parametrize("look", [status_of, lambda metrics: list(metrics.dcgm.collect())], ids=["status", "dcgm"])
def test_a_look_at_twice_as_many_devices_is_at_most_twice_the_work(look: Callable[[Metrics], object]) -> None:
    few, many = work(4, look), work(8, look)
    assert all(more <= 2 * less for more, less in zip(many, few, strict=True))
    assert few[1] >= 4


def test_a_look_makes_no_series_of_what_a_device_has_not_done() -> None:
    metrics, registry = measured(2)
    metrics.on_step(record(device=1))
    for device in status_of(metrics).devices:
        hit_rate = registry.get_sample_value("foreserve_hb_hit_rate", {"device": str(device.index)})
        assert (device.hit_share, hit_rate) == ((0.4, 0.4) if device.index else (0.0, None))
    metrics.on_change(node(1, State.GONE))
    metrics.on_change(node(1))  # It is back, and has not begun.
    seen = status_of(metrics).devices[1], metrics.recent_load.of_all()[1]
    assert [each.kv_share for each in seen] == [0.0, 0.0]
    assert registry.get_sample_value("vllm:kv_cache_usage_perc", {"model_name": "m", "engine": "1"}) is None
