"""Status deltas: the rates of each device between two statuses, per emulated second."""

from typing import NamedTuple

from serving.telemetry.status import DeviceNow, SloNow, Status


class DeviceRates(NamedTuple):
    """A device's rates between two statuses: tokens per second, joules per token (of steps), share of steps that
    speculated, and share of drafts accepted (None where there was nothing to divide by); and joules of steps a second,
    which there are without a token, too."""

    tokens_per_s: float
    j_per_token: float | None
    sd_share: float | None
    acceptance: float | None
    step_w: float


class StatusDeltas:
    """Keeps the last status. The first delta covers all time before, also that of a server that has begun anew."""

    def __init__(self) -> None:
        self._last: Status | None = None
        self._last_devices: dict[int, DeviceNow] = {}

    def since_last(self, status: Status) -> dict[int, DeviceRates]:
        """Return each device's rates, by its index, since the last call."""
        if self._last is not None and status.emulated_s < self._last.emulated_s:
            self._last, self._last_devices = None, {}
        since_s = status.emulated_s - (self._last.emulated_s if self._last else 0.0)
        rates = {now.index: _rates(now, self._last_devices.get(now.index), since_s) for now in status.devices}
        self._last, self._last_devices = status, {now.index: now for now in status.devices}
        return rates


def attained(slo: SloNow) -> float | None:
    """Return the share of a class's requests, refused ones included, that met its promise; None without requests."""
    offered = slo.met + slo.missed + slo.rejected
    return slo.met / offered if offered else None


def _rates(now: DeviceNow, last: DeviceNow | None, since_s: float) -> DeviceRates:
    tokens = now.tokens - (last.tokens if last else 0)
    joules = now.step_energy_j - (last.step_energy_j if last else 0.0)
    steps = {mode: count - (last.steps.get(mode, 0) if last else 0) for mode, count in now.steps.items()}
    drafted = now.drafted - (last.drafted if last else 0)
    accepted = now.accepted - (last.accepted if last else 0)
    made = sum(steps.values())
    return DeviceRates(
        tokens / since_s if since_s > 0 else 0.0,
        joules / tokens if tokens else None,
        steps.get("sd", 0) / made if made else None,
        accepted / drafted if drafted else None,
        joules / since_s if since_s > 0 else 0.0,
    )
