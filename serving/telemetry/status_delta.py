"""What went on between two looks at a status, per emulated second."""

from typing import NamedTuple

from serving.telemetry.status import DeviceNow, SloNow, Status


class Beat(NamedTuple):
    """A device between two looks: tokens per second, joules per token, the share of its steps that speculated, and of
    its drafts that were accepted (None: it had none)."""

    tokens_per_s: float
    j_per_token: float | None
    sd_share: float | None
    acceptance: float | None


class Pulse:
    """Remembers the last status. The first beat is of all the time before."""

    def __init__(self) -> None:
        self._last: Status | None = None
        self._last_devices: dict[int, DeviceNow] = {}

    def beat(self, status: Status) -> dict[int, Beat]:
        """By device, since this was called last."""
        since_s = status.emulated_s - (self._last.emulated_s if self._last else 0.0)
        beats = {now.index: _beat(now, self._last_devices.get(now.index), since_s) for now in status.devices}
        self._last, self._last_devices = status, {now.index: now for now in status.devices}
        return beats


def attained(slo: SloNow) -> float | None:
    """The share of a class' requests, those turned away among them, that had what they were promised."""
    offered = slo.met + slo.missed + slo.rejected
    return slo.met / offered if offered else None


def _beat(now: DeviceNow, last: DeviceNow | None, since_s: float) -> Beat:
    tokens = now.tokens - (last.tokens if last else 0)
    joules = now.energy_j - (last.energy_j if last else 0.0)
    steps = {mode: count - (last.steps.get(mode, 0) if last else 0) for mode, count in now.steps.items()}
    drafted = now.drafted - (last.drafted if last else 0)
    accepted = now.accepted - (last.accepted if last else 0)
    made = sum(steps.values())
    return Beat(
        tokens / since_s if since_s > 0 else 0.0,
        joules / tokens if tokens else None,
        steps.get("sd", 0) / made if made else None,
        accepted / drafted if drafted else None,
    )
