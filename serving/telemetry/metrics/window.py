"""The last second of a device, as meters of power and utilisation show it."""

from collections import deque

from serving.types import StepRecord

SPAN_S = 1.0


class Window:
    """The steps that ended within the last emulated second, and one more."""

    __slots__ = ("_busy_s", "_bytes", "_joules", "_steps", "ended_s")

    def __init__(self) -> None:
        self._steps: deque[tuple[float, float, float, float]] = deque()
        self._busy_s = self._joules = self._bytes = 0.0
        self.ended_s = 0.0

    def add(self, record: StepRecord) -> None:
        """Add a step."""
        self.ended_s = record.start_s + record.latency_s
        self._steps.append((self.ended_s, record.latency_s, sum(record.energy_j), record.traffic_bytes[1]))
        self._sum(*self._steps[-1][1:], sign=1)
        while self._steps[0][0] < self.ended_s - SPAN_S:
            self._sum(*self._steps.popleft()[1:], sign=-1)

    def power_w(self, until_s: float, idle_w: float) -> float:
        """Mean power up to an instant; `idle_w` is drawn between steps."""
        span_s = self._span_s(until_s)
        return (self._joules + idle_w * max(0.0, span_s - self._busy_s)) / span_s if span_s else idle_w

    def busy_share(self, until_s: float) -> float:
        """Return the share of the window before `until_s` in which the device worked."""
        span_s = self._span_s(until_s)
        return min(1.0, self._busy_s / span_s) if span_s else 0.0

    def ext_bytes_per_s(self, until_s: float) -> float:
        """Mean traffic with the external memory."""
        span_s = self._span_s(until_s)
        return self._bytes / span_s if span_s else 0.0

    def _span_s(self, until_s: float) -> float:
        while self._steps and self._steps[0][0] < until_s - SPAN_S:
            self._sum(*self._steps.popleft()[1:], sign=-1)
        if not self._steps:
            return 0.0
        first_ended_s, first_s, *_ = self._steps[0]
        return max(until_s, self.ended_s) - (first_ended_s - first_s)

    def _sum(self, latency_s: float, joules: float, ext_bytes: float, sign: int) -> None:
        self._busy_s += sign * latency_s
        self._joules += sign * joules
        self._bytes += sign * ext_bytes
