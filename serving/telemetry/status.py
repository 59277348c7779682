"""An emulation's status, small enough to be polled each second: `foreserve top` and /ui show it.

Counts are totals since the start; two statuses give rates (`serving.telemetry.status_delta`).
"""

import msgspec


class DeviceNow(msgspec.Struct, frozen=True):
    """A device. Shares are 0 to 1: of the KV cache that is full; of the last emulated second in which it worked, and of
    the slow tier's bandwidth that it used then; of the last step's expert reads that the fast tier held. `tiers` are
    what its hardware calls the fast one and the slow one; `hb_bytes` are the fast one's, by kind. Of its `tokens` so
    many were `recorded` before."""

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
    late_p99_s: float
