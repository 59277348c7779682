"""The last second of a device, as meters of power and utilisation show it."""

from collections import deque

from serving.types import StepRecord

SPAN_S = 1.0


class Window:
    """The steps that ended within the last emulated second, and one more. Added up when somebody reads: that is seldom,
    and there are hundreds of steps in a second."""

    __slots__ = ("_steps", "ended_s")

    def __init__(self) -> None:
        self._steps: deque[StepRecord] = deque()
        self.ended_s = 0.0

    def add(self, record: StepRecord) -> None:
        """Add a step."""
        self.ended_s = ended_s = record.start_s + record.latency_s
        self._steps.append(record)
        self._forget(ended_s - SPAN_S)

    def power_w(self, until_s: float, idle_w: float) -> float:
        """Mean power up to an instant; `idle_w` is drawn between steps."""
        if not (span_s := self._span_s(until_s)):
            return idle_w
        joules = sum(sum(step.energy_j) for step in self._steps)
        return (joules + idle_w * max(0.0, span_s - self._busy_s)) / span_s

    def busy_share(self, until_s: float) -> float:
        """Return the share of the window before `until_s` in which the device worked."""
        span_s = self._span_s(until_s)
        return min(1.0, self._busy_s / span_s) if span_s else 0.0

    def ext_bytes_per_s(self, until_s: float) -> float:
        """Mean traffic with the external memory."""
        span_s = self._span_s(until_s)
        return sum(step.traffic_bytes[1] for step in self._steps) / span_s if span_s else 0.0

    @property
    def _busy_s(self) -> float:
        return sum(step.latency_s for step in self._steps)

    def _span_s(self, until_s: float) -> float:
        self._forget(until_s - SPAN_S)
        if not self._steps:
            return 0.0
        return max(until_s, self.ended_s) - self._steps[0].start_s

    def _forget(self, before_s: float) -> None:
        """Forget the steps that ended before an instant."""
        steps = self._steps
        while steps and steps[0].start_s + steps[0].latency_s < before_s:
            steps.popleft()
