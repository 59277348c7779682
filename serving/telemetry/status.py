"""An emulation's status, small enough to be polled each second: `foreserve top` and /ui show it.

Counts are totals since the start; two statuses give rates (`serving.telemetry.status_delta`).
"""

import msgspec


class DeviceNow(msgspec.Struct, frozen=True):
    """A device. Shares are 0 to 1: of the KV cache that is full; of the last emulated second in which it worked, and of
    the slow tier's bandwidth that it used then; of the last step's expert reads that the fast tier held. `tiers` are
    what its hardware calls the fast one and the slow one; `hb_bytes` are the fast one's, by kind. Of its joules so many
    are of steps, which is what papers count a token. Of its `tokens` so many were `recorded` before."""

    index: int
    hardware: str
    tiers: tuple[str, str]
    state: str
    mode: str
    batch: int
    waiting: int
    kv_share: float
    busy_share: float
    ext_share: float
    hit_share: float
    power_w: float
    hb_bytes: dict[str, float]
    hb_capacity_bytes: float
    faults: list[str]
    tokens: int
    energy_j: float
    step_energy_j: float
    steps: dict[str, int]
    switches: int
    drafted: int
    accepted: int
    underruns: int
    recorded: int


class SloNow(msgspec.Struct, frozen=True):
    """An SLO class: its targets (None: none), and what became of its requests."""

    name: str
    ttft_s: float | None
    tpot_s: float | None
    met: int
    missed: int
    rejected: int
    waiting: int


class Latency(msgspec.Struct, frozen=True):
    """Latencies of the last requests that ended, in emulated seconds; None before the first."""

    p50_s: float | None
    p99_s: float | None


class HostNow(msgspec.Struct, frozen=True):
    """The host's pace over the last `over_s` real seconds.

    Shares are of the modelled TTFT by which tokens came late, of the modelled step by which devices did, and of tokens
    that were not ready (None: nothing to tell of); `late_p99_s` is of steps, in real seconds. `too_slow` says what is
    wrong and what to do, and nothing while the pace is kept.
    """

    over_s: float
    too_slow: str
    lateness_share: float | None
    pacing_share: float | None
    underrun_share: float
    late_p99_s: float


class Status(msgspec.Struct, frozen=True):
    """An emulation's status. `emulated_s` is its uptime; `waiting` counts requests by topic."""

    about: dict[str, str]
    emulated_s: float
    devices: list[DeviceNow]
    slos: list[SloNow]
    waiting: dict[str, int]
    oldest_s: float
    ttft: Latency
    tpot: Latency
    restarts: dict[str, int]
    host: HostNow
