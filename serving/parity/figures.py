"""The times of each request on four sides: the client, the device, and virtual time as arrived and as planned."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from serving.load.client import RequestTimes
from serving.load.latencies import e2e_s, tpot_s, ttft_s
from serving.load.summary import Quantiles
from serving.simulation.node import Outcome
from serving.telemetry.flight_log import FlightRecord

CLIENT, DEVICE, ARRIVED, PLANNED = SIDES = ("client", "device", "arrived", "planned")
"""The sides: the load client (live); the device as it released tokens (live); virtual time with the live arrivals;
virtual time with the workload's arrivals."""


class Times(NamedTuple):
    """A request's times in emulated seconds: to the first token, and per token after it (None for a single token)."""

    ttft_s: float
    tpot_s: float | None


METRICS = Times._fields
STATISTICS = ("mean", "p50", "p99")


class ComparedRow(NamedTuple):
    """A request of the workload, with its `times` by side.

    Device, arrival (emulated seconds since the run began) and topic are live ones, beside the planned ones; tokens are
    live ones, beside those that the workload asks for. `slipped`: it missed a step live. `delay_s`: emulated seconds
    that its client waited beyond the time that the device took.
    """

    id: str
    times: Mapping[str, Times]
    device: int
    device_planned: int
    arrival_s: float
    arrival_planned_s: float
    prompt_tokens: int
    prompt_tokens_asked: int
    output_tokens: int
    output_tokens_asked: int
    topic: str
    topic_planned: str
    slipped: bool
    delay_s: float

    @property
    def late_s(self) -> float:
        """Emulated seconds by which the request arrived later than planned."""
        return self.arrival_s - self.arrival_planned_s


def rows_of(
    all_times: Iterable[RequestTimes],
    speed: float,
    flights: Iterable[FlightRecord],
    virtual: tuple[Mapping[str, Outcome], Sequence[Outcome]],
    slipped: Iterable[str],
) -> list[ComparedRow]:
    """Return the requests that completed on all four sides, in planned order of arrival.

    `virtual`: the outcomes as arrived, by the server's ids, and as planned. `slipped`: the server's ids of requests
    that slipped a step.
    """
    seen = {times.name: times for times in all_times if times.completed}
    served = {each.name: each for each in flights if each.tokens}
    arrived, planned = virtual
    both = [(outcome, served[outcome.request.id]) for outcome in planned if outcome.request.id in seen.keys() & served]
    if not both:
        return []
    # The clocks have different origins: the first request, which waits for no other, arrives at one instant on both.
    began_s = both[0][1].arrival_s - both[0][0].request.arrival_s
    slips = set(slipped)
    return [
        ComparedRow(
            id=flight.name,
            times={
                CLIENT: _seen(seen[flight.name], speed),
                DEVICE: _released(flight),
                ARRIVED: times_of(arrived[flight.id]),
                PLANNED: times_of(outcome),
            },
            device=flight.device,
            device_planned=outcome.device,
            arrival_s=flight.arrival_s - began_s,
            arrival_planned_s=outcome.request.arrival_s,
            prompt_tokens=flight.request.prompt_tokens,
            prompt_tokens_asked=outcome.request.prompt_tokens,
            output_tokens=flight.tokens,
            output_tokens_asked=outcome.request.max_tokens,
            topic=flight.request.topic,
            topic_planned=outcome.request.topic,
            slipped=flight.id in slips,
            delay_s=e2e_s(seen[flight.name]) * speed - (flight.last_s - flight.arrival_s),
        )
        for outcome, flight in both
    ]


def quantiles(rows: Iterable[ComparedRow], side: str, metric: str) -> Quantiles:
    """Return the quantiles of a metric on one side, over all requests that have it."""
    values = [getattr(row.times[side], metric) for row in rows]
    return Quantiles.of(np.array([value for value in values if value is not None]))


def times_of(outcome: Outcome) -> Times:
    """Return the times of a request in virtual time."""
    return Times(outcome.ttft_s, outcome.tpot_s if outcome.tokens > 1 else None)


def _seen(times: RequestTimes, speed: float) -> Times:
    real_s = tpot_s(times)
    return Times(ttft_s(times) * speed, None if real_s is None else real_s * speed)


def _released(flight: FlightRecord) -> Times:
    assert flight.first_s is not None  # it had tokens
    after = flight.tokens - 1
    return Times(flight.first_s - flight.arrival_s, (flight.last_s - flight.first_s) / after if after else None)
