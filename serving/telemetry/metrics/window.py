"""The last second of a device, as meters of power and utilisation show it."""

from collections import deque

from serving.types import StepRecord

SPAN_S = 1.0


class Window:
    """The steps of the last emulated second, of the first one what lies in it. Added up when somebody reads: that is
    seldom, and there are hundreds of steps in a second."""

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
        """Mean power in the second before an instant; `idle_w` is drawn between steps."""
        joules = sum(sum(step.energy_j) * share for step, share in self._shares(until_s))
        return joules / SPAN_S + idle_w * (1.0 - self.busy_share(until_s))

    def busy_share(self, until_s: float) -> float:
        """Return the share of the second before `until_s` in which the device worked."""
        return min(1.0, sum(step.latency_s * share for step, share in self._shares(until_s)) / SPAN_S)

    def ext_bytes_per_s(self, until_s: float) -> float:
        """Mean traffic with the external memory in the second before `until_s`."""
        return sum(step.traffic_bytes[1] * share for step, share in self._shares(until_s)) / SPAN_S

    def _shares(self, until_s: float) -> list[tuple[StepRecord, float]]:
        """Return the steps of the second before `until_s`, or before the last one's end if that is later, each with the
        share of it that lies in that second."""
        begin_s = max(until_s, self.ended_s) - SPAN_S
        self._forget(begin_s)
        return [(step, _share_after(step, begin_s)) for step in self._steps]

    def _forget(self, before_s: float) -> None:
        """Forget the steps that ended before an instant."""
        steps = self._steps
        while steps and steps[0].start_s + steps[0].latency_s < before_s:
            steps.popleft()


def _share_after(step: StepRecord, begin_s: float) -> float:
    """Return the share of a step that lies after an instant."""
    before_s = begin_s - step.start_s
    return 1.0 if before_s <= 0 else max(0.0, 1.0 - before_s / step.latency_s)
