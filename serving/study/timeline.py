"""Timeline of a run's devices, in a few hundred bins whatever its length."""

from itertools import accumulate
from typing import Any

from serving.types import StepRecord

BINS = 256
FIRST_WIDTH_S = 0.25
STEP_COLUMNS = (
    "prefill_s",
    "ar_s",
    "sd_s",
    "sequence_s",
    "steps",
    "computed_tokens",
    "joules",
    "expert_lookups",
    "expert_hits",
    "drafted",
    "accepted",
)
COLUMNS = (*STEP_COLUMNS, "waiting_s")


class Timeline:
    """Sums over bins of emulated time, all devices together; when a run outlasts the bins, two become one.

    Device seconds by mode (`prefill_s`, `ar_s`, `sd_s`), `sequence_s` and `waiting_s` (seconds of sequences in a step,
    and of requests that wait for one), `computed_tokens` (of prompts and outputs), and other sums. What a step did is
    spread evenly over it.
    """

    def __init__(self) -> None:
        self.width_s = FIRST_WIDTH_S
        self._bins = [[0.0] * len(STEP_COLUMNS) for _ in range(BINS)]
        # Of each bin by how many more wait at its end than at its beginning, and the seconds of it that they wait: a
        # wait takes no longer to add the longer it is.
        self._more, self._waited_s = [0] * BINS, [0.0] * BINS

    def add(self, record: StepRecord) -> None:
        """Add a step, or steps made at once."""
        start_s, latency_s = record.start_s, record.latency_s
        self._reach(start_s + latency_s)
        first, last = int(start_s / self.width_s), int((start_s + latency_s) / self.width_s)
        values = _values(record)
        if first == last:
            self._put(first, values, 1.0)
            return
        for index in range(first, last + 1):
            begin_s, end_s = max(start_s, index * self.width_s), min(start_s + latency_s, (index + 1) * self.width_s)
            self._put(index, values, (end_s - begin_s) / latency_s)

    def wait(self, from_s: float, to_s: float) -> None:
        """Add that a request waited for a step."""
        self._reach(to_s)
        for at_s, more in ((from_s, 1), (to_s, -1)):
            index = int(at_s / self.width_s)
            self._more[index] += more
            self._waited_s[index] += more * ((index + 1) * self.width_s - at_s)

    def rows(self) -> list[dict[str, Any]]:
        """Return the bins up to the last in which anything was done, each with its `start_s` and `width_s`."""
        used = [index for index, sums in enumerate(self._bins) if any(sums)]
        before = accumulate(self._more, initial=0)
        waiting_s = [count * self.width_s + each for count, each in zip(before, self._waited_s, strict=False)]
        return [
            {"start_s": index * self.width_s, "width_s": self.width_s}
            | dict(zip(COLUMNS, (*sums, waiting_s[index]), strict=True))
            for index, sums in enumerate(self._bins[: max(used, default=-1) + 1])
        ]

    def _put(self, index: int, values: tuple[float, ...], share: float) -> None:
        self._bins[index] = [total + value * share for total, value in zip(self._bins[index], values, strict=True)]

    def _reach(self, at_s: float) -> None:
        """Have a bin for an instant."""
        while at_s >= BINS * self.width_s:
            self._fold()

    def _fold(self) -> None:
        halves = zip(self._more[::2], self._waited_s[::2], self._waited_s[1::2], strict=True)
        self._waited_s = [first_s + more * self.width_s + second_s for more, first_s, second_s in halves]
        self._waited_s += [0.0] * (BINS // 2)
        self._more = [a + b for a, b in zip(self._more[::2], self._more[1::2], strict=True)] + [0] * (BINS // 2)
        pairs = zip(self._bins[::2], self._bins[1::2], strict=True)
        folded = [[a + b for a, b in zip(one, other, strict=True)] for one, other in pairs]
        self._bins = folded + [[0.0] * len(STEP_COLUMNS) for _ in folded]
        self.width_s *= 2


def _values(record: StepRecord) -> tuple[float, ...]:
    latency_s, prefill, sd = record.latency_s, record.phase != "decode", record.mode == "sd"
    return (
        latency_s if prefill else 0.0,
        latency_s if not prefill and not sd else 0.0,
        latency_s if not prefill and sd else 0.0,
        record.batch * latency_s,
        record.steps,
        record.new_tokens,
        sum(record.energy_j),
        record.expert_lookups,
        record.expert_hits,
        record.drafted,
        record.accepted,
    )
