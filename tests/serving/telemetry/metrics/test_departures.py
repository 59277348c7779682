"""Do the series of a device that is gone end, all of them and no others, once they were scraped for the last time?"""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from serving.cluster.node import State
from serving.flight import TokenNews
from serving.telemetry.metrics import Metrics
from serving.telemetry.metrics.departures import KEPT_S
from tests.serving.telemetry.metrics.samples import everything, flight, measured, node, record, release

OF_ONE = (
    'device="1"',
    'engine="1"',
    'actor="device 1"',
    *(f'="{part} 1"' for part in ("device", "scheduler", "lpddr")),
)


def lines_of(registry: CollectorRegistry) -> tuple[list[str], list[str]]:
    """The samples of device 1, and all others, in order: families that are worked out have theirs in any."""
    lines = sorted(line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#"))
    of_one = [line for line in lines if any(label in line for label in OF_ONE)]
    return of_one, [line for line in lines if line not in of_one]


def part(metrics: Metrics, device: int) -> None:
    """Have a device go, whose requests go on elsewhere."""
    for each in list(metrics.requests.in_flight.flights):
        if each.device == device:
            each.device = 0
            metrics.on_move(each)
    metrics.on_change(node(device, State.GONE))
    metrics.on_change(node(device, State.GONE))  # As of one that is lost while it drains.


@pytest.fixture
def gone() -> tuple[Metrics, CollectorRegistry]:
    """Metrics that had every series, of which device 1 is gone."""
    metrics, registry = measured(3)
    everything(metrics, 3)
    part(metrics, 1)
    return metrics, registry


def test_all_series_of_a_device_that_is_gone_end_after_some_scrapes_and_no_others(gone) -> None:  # type: ignore[no-untyped-def]
    metrics, registry = gone
    metrics.on_step(record(device=1))  # Its last one, which is told of late.
    counts, others = lines_of(registry)
    assert len(counts) > 700
    for at_s in (1000.0, 1000.0 + KEPT_S - 1.0):
        metrics.look(at_s)
        assert lines_of(registry) == (counts, others)
    metrics.look(1000.0 + KEPT_S)
    assert lines_of(registry) == ([], others)


def test_what_is_told_of_a_device_whose_series_have_ended_counts_nowhere(gone) -> None:  # type: ignore[no-untyped-def]
    metrics, registry = gone
    metrics.look(0.0)
    metrics.look(KEPT_S)
    _, others = lines_of(registry)
    metrics.on_step(record(device=1))
    metrics.on_tokens(TokenNews(1, 3, 0, {0.02: 3}, []))
    metrics.on_delivery(1, 0.01)
    assert lines_of(registry) == ([], others)


def test_a_device_that_is_back_goes_on_where_its_series_are_and_begins_anew_where_they_have_ended() -> None:
    metrics, registry = measured(2)

    def tokens() -> float | None:
        return registry.get_sample_value("foreserve_released_tokens_total", {"device": "1"})

    def running() -> float | None:
        return registry.get_sample_value("vllm:num_requests_running", {"model_name": "m", "engine": "1"})

    release(metrics, flight(device=1), 5, None)
    part(metrics, 1)
    metrics.look(0.0)
    metrics.on_change(node(1))
    metrics.look(KEPT_S)
    assert (tokens(), running()) == (5, 0)
    part(metrics, 1)
    metrics.look(KEPT_S)
    metrics.look(2 * KEPT_S)
    assert (tokens(), running()) == (None, None)
    metrics.on_change(node(1))
    metrics.look(4 * KEPT_S)
    assert (tokens(), running()) == (0, 0)
    release(metrics, flight(device=1), 2, None)
    assert tokens() == 2


def test_a_device_that_is_lost_and_may_come_back_keeps_its_series() -> None:
    metrics, registry = measured(2)
    metrics.on_change(node(1, State.LOST))
    metrics.look(0.0)
    metrics.look(2 * KEPT_S)
    assert registry.get_sample_value("foreserve_released_tokens_total", {"device": "1"}) == 0
