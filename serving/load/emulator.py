"""The emulator's pace, by its own /metrics: a slow host must not pass for slow hardware.

An endpoint is ours if its /metrics has `foreserve_info`. Its counters are read before and after the run, and the
difference is the run's (other clients' traffic at that time is in it too). The emulator counts its delays in real
seconds and its steps in emulated ones; emulated seconds = real seconds x speed.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

from serving.load.tails import ModelledTtft, attainment_refusal, modelled_ttft
from serving.security.bearer import bearer
from serving.security.client_trust import SYSTEMS, Trust

LATENESS_LIMIT = 0.05  # Share of the modelled latency: above it, latencies are the host's, not the hardware's.
UNDERRUN_LIMIT = 0.05  # Share of the released tokens: above it, latencies are the token model's.
MARGIN = 0.8  # Of the speed at which lateness would be at its limit.
SETTLE_S, SETTLE_TRIES = 0.25, 8  # Actors ship their counts in batches, so the last ones come after the last token.

MODELLED = "vllm:time_to_first_token_seconds"

Series = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The emulator's own series at one instant, and its labels of `foreserve_info`."""

    info: Mapping[str, str]
    series: Series

    @property
    def speed(self) -> float:
        """Emulated seconds per real second."""
        return float(self.info.get("speed") or 1.0)


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The host's fidelity to the modelled pace during a run; seconds are emulated. None: not known."""

    info: Mapping[str, str]
    speed: float
    lateness_mean_s: float | None  # From a release's modelled instant to its hand-over at the edge.
    ttft_mean_s: float | None  # As modelled.
    step_mean_s: float | None
    pacing_error_mean_s: float | None
    underruns: int  # Tokens that the token source had not made when the device released them.
    released_tokens: int
    recorded_tokens: int  # Released tokens of recorded answers.
    energy_j: float
    broken: str | None  # Why the two readings cannot be compared; None if they can.
    ttft: ModelledTtft | None = None

    @property
    def lateness_share(self) -> float | None:
        """Mean lateness over the mean modelled TTFT: the shortest latency in which a delay counts in full.

        Between the tokens of a stream a constant delay cancels out; `pacing_share` has the rest.
        """
        return _share(self.lateness_mean_s, self.ttft_mean_s)

    @property
    def pacing_share(self) -> float | None:
        """Mean pacing error of the devices over their mean modelled step."""
        return _share(self.pacing_error_mean_s, self.step_mean_s)

    @property
    def joules_per_token(self) -> float | None:
        """Modelled energy of the run over the tokens it released."""
        return self.energy_j / self.released_tokens if self.released_tokens else None

    @property
    def recorded_share(self) -> float:
        """Recorded tokens over the tokens released."""
        return self.recorded_tokens / self.released_tokens if self.released_tokens else 0.0

    @property
    def underrun_share(self) -> float:
        """Underruns over the tokens released."""
        return self.underruns / self.released_tokens if self.released_tokens else 0.0

    def refusal(self) -> str | None:
        """Return why there is no SLO verdict, in a sentence; None if the pace was kept."""
        if self.broken:
            return f"No SLO verdict: {self.broken}, so its lateness is not known."
        if self.lateness_share is None or self.pacing_share is None:
            return "No SLO verdict: the emulator counted no steps or no deliveries, so its lateness is not known."
        for what, share, late_s, name, modelled_s in (
            ("tokens came out", self.lateness_share, self.lateness_mean_s, "TTFT", self.ttft_mean_s),
            ("devices ended their steps", self.pacing_share, self.pacing_error_mean_s, "step", self.step_mean_s),
        ):
            if share > LATENESS_LIMIT:
                return (
                    f"No SLO verdict: the host is too slow: {what} {_ms(late_s)} late on average, {share:.1%} of the "
                    f"modelled {name} of {_ms(modelled_s)} (limit {LATENESS_LIMIT:.0%}). {self._slower(share)}"
                )
        if self.underrun_share > UNDERRUN_LIMIT:
            return (
                f"No SLO verdict: the host is too slow: {self.underrun_share:.1%} of the tokens were not ready when "
                f"the device released them (limit {UNDERRUN_LIMIT:.0%}). Try `serve --text recorded`, or a slower "
                "--speed."
            )
        return None

    def tail_refusal(self, limit_s: float | None, attained: float) -> str | None:
        """Return why there is no verdict on a TTFT limit that a share of the requests kept; None if there is."""
        found = None if limit_s is None or self.ttft is None else attainment_refusal(self.ttft, limit_s, attained)
        return f"{found}. Try `serve --speed {self.speed / 2:.2g}`." if found else None

    def _slower(self, share: float) -> str:
        """Say at which speed the host should keep up: what it takes in real seconds stays, and steps take longer."""
        return f"Try `serve --speed {MARGIN * self.speed * LATENESS_LIMIT / share:.1g}`."


async def snapshot(url: str, api_key: str | None = None, trust: Trust = SYSTEMS) -> Snapshot | None:
    """Read /metrics at `url`; return None if nothing answers there or it is not our emulator."""
    verify = trust.context() if url.startswith("https:") else True
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=10, verify=verify) as client:
            reply = await client.get(url, headers=bearer(api_key))
    except (httpx.HTTPError, httpx.InvalidURL):
        return None
    return parse(reply.text) if reply.status_code == 200 else None


async def settled(url: str, api_key: str | None = None, trust: Trust = SYSTEMS) -> Snapshot | None:
    """Read /metrics until it no longer changes, `SETTLE_TRIES` times at most; return None if nothing answers."""
    last = await snapshot(url, api_key, trust)
    for _ in range(SETTLE_TRIES):
        await asyncio.sleep(SETTLE_S)
        now = await snapshot(url, api_key, trust)
        if now is None or now == last:
            return now
        last = now
    return last


def parse(text: str) -> Snapshot | None:
    """Return the snapshot in a Prometheus text; None if it is not our emulator's."""
    ours = "\n".join(line for line in text.splitlines() if line.startswith(("foreserve_", MODELLED)))
    info: Mapping[str, str] | None = None
    series: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    try:
        families = list(text_string_to_metric_families(ours + "\n"))
    except ValueError:
        return None
    for family in families:
        for sample in family.samples:
            if sample.name == "foreserve_info":
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

    speed = after.speed
    return Fidelity(
        info=after.info,
        speed=speed,
        lateness_mean_s=mean("foreserve_delivery_delay_seconds", speed),
        ttft_mean_s=mean("vllm:time_to_first_token_seconds", 1.0),
        step_mean_s=mean("foreserve_step_latency_seconds", 1.0),
        pacing_error_mean_s=mean("foreserve_pacing_error_seconds", speed),
        underruns=round(grew("foreserve_underruns_total")),
        released_tokens=round(grew("foreserve_released_tokens_total")),
        recorded_tokens=round(grew("foreserve_recorded_tokens_total")),
        energy_j=grew("foreserve_energy_joules_total"),
        broken=broken,
        ttft=modelled_ttft(_grown_buckets(before, after)),
    )


def _grown_buckets(before: Snapshot, after: Snapshot) -> dict[float, float]:
    """Return the requests that came to the devices' TTFT up to each bound, of all devices together."""
    grown: dict[float, float] = defaultdict(float)
    for snapshot, sign in ((after, 1), (before, -1)):
        for (name, labels), value in snapshot.series.items():
            if name == f"{MODELLED}_bucket":
                grown[float(dict(labels)["le"])] += sign * value
    return grown


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _ms(seconds: float | None) -> str:
    return f"{(seconds or 0.0) * 1e3:.3g} ms"


def _broken(before: Snapshot, after: Snapshot | None) -> str | None:
    if after is None:
        return "the emulator's /metrics no longer answers"
    if after.speed != before.speed:
        return "the emulator's speed changed during the run"
    counts = ("foreserve_released_tokens_total", "foreserve_step_latency_seconds_count")
    if any(_total(after, name) < _total(before, name) for name in counts):
        return "the emulator restarted during the run"
    return None


def _total(snapshot: Snapshot, name: str) -> float:
    return sum(value for (series, _), value in snapshot.series.items() if series == name)
