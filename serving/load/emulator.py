"""The emulator's pace, by its own /metrics: a slow host must not pass for slow hardware.

An endpoint is ours if its /metrics has `foreserve_info`. Its counters are read before and after the run, and the
difference is the run's (other clients' traffic at that time is in it too). The emulator counts its delays in real
seconds and its steps in emulated ones; emulated seconds = real seconds x speed.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from serving.host_pace import HostPace
from serving.load.tails import FAMILIES, ModelledLatency, modelled_latency

# Real seconds between two readings during a run: the series of a device that is gone end after five minutes.
READ_EVERY_S = 60.0
SETTLE_S, SETTLE_TRIES = 0.25, 8  # Actors ship their counts in batches, so the last ones come after the last token.

PROMPTS, CACHED = "vllm:prompt_tokens_total", "vllm:prompt_tokens_cached_total"
BEGAN = "process_start_time_seconds"
INFO, DELIVERY = "foreserve_info", "foreserve_delivery_delay_seconds"
STEP, PACING = "foreserve_step_latency_seconds", "foreserve_pacing_error_seconds"
UNDERRUNS, ENERGY = "foreserve_underruns_total", "foreserve_energy_joules_total"
RELEASED, RECORDED = "foreserve_released_tokens_total", "foreserve_recorded_tokens_total"
# Nothing else is read: power and idle energy change also when all has ended, and would never settle.
OURS = (
    *(INFO, DELIVERY, STEP, PACING, UNDERRUNS, ENERGY, RELEASED, RECORDED),
    *(PROMPTS, CACHED, BEGAN, *FAMILIES.values()),
)

ReadMetrics = Callable[[], Awaitable[str | None]]
"""Reads the text of /metrics; None if nothing answers there."""
Series = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


class Readings:
    """Readings of an emulator's /metrics during a run, each with the last values of series that have ended: what a
    device did that is gone by the end is the run's, too."""

    def __init__(self, read: ReadMetrics) -> None:
        self._read = read
        self._last: dict[str, str] = {}

    async def read(self) -> str | None:
        """Return the text of /metrics, with those that have ended; None if nothing answers there."""
        text = await self._read()
        if text is None or INFO not in text:
            return text
        counts = (line.rpartition(" ") for line in text.splitlines() if line.startswith(OURS) and INFO not in line)
        now = {series: value for series, _, value in counts}
        self._last |= now
        ended = [f"{series} {value}" for series, value in self._last.items() if series not in now]
        return "\n".join([text, *ended])

    async def go_on(self) -> None:
        """Read now and then, until cancelled."""
        while True:
            await asyncio.sleep(READ_EVERY_S)
            await self.read()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The series that a run's figures are made of at one instant, and the labels of `foreserve_info`."""

    info: Mapping[str, str]
    series: Series

    @property
    def speed(self) -> float:
        """Emulated seconds per real second."""
        return float(self.info.get("speed") or 1.0)


@dataclass(frozen=True, slots=True)
class Fidelity(HostPace):
    """The host's fidelity to the modelled pace during a run; seconds are emulated. None: not known."""

    info: Mapping[str, str]
    energy_j: float
    broken: str | None  # Why the two readings cannot be compared; None if they can.
    modelled: Mapping[str, ModelledLatency]  # The devices' own latencies, by their names in FAMILIES.
    tpot_mean_s: float | None = None  # The devices' own, of the requests that have ended.
    lateness_p99_s: float | None = None  # At most: the upper bound of a bucket.
    cached_share: float = 0.0  # Of the prompts' tokens, those that were in the devices' KV caches.

    @property
    def joules_per_token(self) -> float | None:
        """Modelled energy of the run over the tokens it released."""
        return self.energy_j / self.released_tokens if self.released_tokens else None

    @property
    def recorded_share(self) -> float:
        """Recorded tokens over the tokens released."""
        return self.recorded_tokens / self.released_tokens if self.released_tokens else 0.0

    def refusal(self) -> str | None:
        """Return why there is no SLO verdict, in a sentence; None if the pace was kept."""
        if self.broken:
            return f"No SLO verdict: {self.broken}, so its lateness is not known."
        if self.lateness_share is None or self.pacing_share is None:
            return "No SLO verdict: the emulator counted no steps or no deliveries, so its lateness is not known."
        found = self.trouble()
        return f"No SLO verdict: the host is too slow: {found.what}. {found.advice}" if found else None


async def snapshot(read: ReadMetrics) -> Snapshot | None:
    """Read /metrics; return None if nothing answers there or it is not our emulator."""
    text = await read()
    return None if text is None else parse(text)


async def settled(read: ReadMetrics) -> Snapshot | None:
    """Read /metrics until it no longer changes, `SETTLE_TRIES` times at most; return None if nothing answers."""
    last = await snapshot(read)
    for _ in range(SETTLE_TRIES):
        await asyncio.sleep(SETTLE_S)
        now = await snapshot(read)
        if now is None or now == last:
            return now
        last = now
    return last


def parse(text: str) -> Snapshot | None:
    """Return the snapshot in a Prometheus text; None if it is not our emulator's."""
    ours = "\n".join(line for line in text.splitlines() if line.startswith(OURS))
    info: Mapping[str, str] | None = None
    series: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    try:
        families = list(text_string_to_metric_families(ours + "\n"))
    except ValueError:
        return None
    for family in families:
        for sample in family.samples:
            if sample.name == INFO:
                info = sample.labels
            series[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return None if info is None else Snapshot(info, series)


def difference(before: Snapshot, after: Snapshot | None) -> Fidelity:
    """Return the fidelity between two snapshots; `after` is None if it could not be read."""
    broken = _broken(before, after)
    after = before if broken or after is None else after

    def grew(name: str) -> float:
        return _total(after, name) - _total(before, name)

    def mean(histogram: str, scale: float) -> float | None:
        count = grew(f"{histogram}_count")
        return scale * grew(f"{histogram}_sum") / count if count > 0 else None

    prompt_tokens = grew(PROMPTS)
    speed, delays = after.speed, modelled_latency(_grown(before, after, DELIVERY))
    return Fidelity(
        info=after.info,
        speed=speed,
        lateness_mean_s=mean(DELIVERY, speed),
        ttft_mean_s=mean("vllm:time_to_first_token_seconds", 1.0),
        step_mean_s=mean(STEP, 1.0),
        pacing_error_mean_s=mean(PACING, speed),
        underruns=round(grew(UNDERRUNS)),
        released_tokens=round(grew(RELEASED)),
        recorded_tokens=round(grew(RECORDED)),
        energy_j=grew(ENERGY),
        broken=broken,
        modelled=_modelled(before, after),
        tpot_mean_s=mean(FAMILIES["tpot"], 1.0),
        lateness_p99_s=_times(speed, delays.at_most_s(0.99) if delays else None),
        cached_share=grew(CACHED) / prompt_tokens if prompt_tokens else 0.0,
    )


def _modelled(before: Snapshot, after: Snapshot) -> dict[str, ModelledLatency]:
    """Return the latencies of all devices together, in so far as they were counted."""
    found = {name: modelled_latency(_grown(before, after, family)) for name, family in FAMILIES.items()}
    return {name: modelled for name, modelled in found.items() if modelled is not None}


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _grown(before: Snapshot, after: Snapshot, histogram: str) -> dict[float, float]:
    """Return the growth of all devices' buckets of a histogram, by upper bound."""
    grown = defaultdict[float, float](float)
    for snapshot, sign in ((after, 1), (before, -1)):
        for (series, labels), value in snapshot.series.items():
            if series == f"{histogram}_bucket":
                grown[float(dict(labels)["le"])] += sign * value
    return grown


def _broken(before: Snapshot, after: Snapshot | None) -> str | None:
    if after is None:
        return "the emulator's /metrics no longer answers"
    if after.speed != before.speed:
        return "the emulator's speed changed during the run"
    counts = (RELEASED, f"{STEP}_count")
    # Of a server that had done nothing before, counts don't fall: when its process began tells of another one.
    anew = _total(after, BEGAN) != _total(before, BEGAN)
    if anew or any(_total(after, name) < _total(before, name) for name in counts):
        return "the emulator restarted during the run"
    return None


def _total(snapshot: Snapshot, name: str) -> float:
    return sum(value for (series, _), value in snapshot.series.items() if series == name)
