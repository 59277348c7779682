"""Steps as events of a trace: what a device was doing, in what mode, at what power, and what happened to it.

mode     in which mode it was, for how many steps in a row, and why
steps    each step, and within it its stages: what moved between the tiers, the draft, the target (a prompt, plain
         decoding, or verifying), and what updating the draft's experts added
events   changes of mode, swaps of experts, preemptions, KV cache spilled and fetched, underruns
and counters, of which those of the tiers are means over each step
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from device_model.specs.hardware import TierNames
from device_model.step import Traffic
from serving.telemetry.chrome_trace import chrome
from serving.telemetry.chrome_trace.chrome import Event
from serving.types import StepRecord

MODE, STEPS, EVENTS = "mode", "steps", "events"
TRACKS = (MODE, STEPS, EVENTS)
# A device that begins a step so soon after the last one has not been idle.
SAME_NS = 1000
UNNAMED = TierNames("fast tier", "slow tier")
"""Of hardware that nobody has named: a step log does not."""


def events_of(records: Iterable[StepRecord], tiers: TierNames = UNNAMED) -> Iterator[Event]:
    """Yield the events of all steps on devices whose memory `tiers` are called so; of each device, steps come in the
    order in which they were made."""
    devices: dict[int, DeviceTrack] = {}
    for record in records:
        if record.device not in devices:
            device = devices[record.device] = DeviceTrack(record.device, tiers)
            tids = {device.track(name)[1]: name for name in TRACKS}
            yield from chrome.names(device.pid, f"device {record.device}", tids)
        yield from devices[record.device].step(record)
    for device in devices.values():
        yield from device.end()


@dataclass(slots=True)
class StepRun:
    """Steps in a row in the same mode, for the same reason."""

    name: str
    reason: str
    start_ns: int
    steps: int = 0
    batch: int = 0


@dataclass(slots=True)
class DeviceTrack:
    """A device's state from one step to the next."""

    index: int
    tiers: TierNames = UNNAMED
    run: StepRun | None = None
    mode: str = ""
    end_ns: int = 0
    counters: dict[str, float] = field(default_factory=dict)

    @property
    def _of_steps(self) -> tuple[str, ...]:
        """Counters of the step at hand: without one they are 0."""
        return ("batch", "power (W)", f"{self.tiers.fast} (GB/s)", f"{self.tiers.slow} (GB/s)")

    @property
    def pid(self) -> int:
        """Its process. 0 means something to Perfetto."""
        return self.index + 1

    def track(self, name: str) -> tuple[int, int]:
        """Return the process and thread id of a named track."""
        return self.pid, self.pid * 10 + TRACKS.index(name)

    def step(self, record: StepRecord) -> Iterator[Event]:
        """Yield the events of one more step."""
        start_ns, end_ns = _ns(record.start_s), _ns(record.start_s + record.latency_s)
        idle = start_ns - self.end_ns > SAME_NS
        # What a float has lost must not make steps overlap.
        start_ns = max(start_ns, self.end_ns)
        if idle:
            yield from self._idle()
        yield from self._run(record, start_ns, idle)
        yield from self._stages(record, start_ns, end_ns)
        yield from self._marks(record, start_ns, end_ns)
        yield from self._count(self._counted(record), start_ns)
        self.mode, self.end_ns = record.mode, end_ns

    def end(self) -> Iterator[Event]:
        """Yield the closing events."""
        yield from self._idle()
        yield from self._close_run()

    def _idle(self) -> Iterator[Event]:
        return self._count({name: 0.0 for name in self._of_steps if name in self.counters}, self.end_ns)

    def _run(self, record: StepRecord, start_ns: int, idle: bool) -> Iterator[Event]:
        name = f"{record.mode.upper()} {record.phase}"
        if self.run is None or idle or (self.run.name, self.run.reason) != (name, record.reason):
            yield from self._close_run()
            self.run = StepRun(name, record.reason, start_ns)
        self.run.steps += 1
        self.run.batch += record.batch

    def _close_run(self) -> Iterator[Event]:
        if (run := self.run) is not None:
            args = {"reason": run.reason, "steps": run.steps, "mean batch": run.batch / run.steps}
            yield chrome.span(self.track(MODE), run.name, run.start_ns, self.end_ns, args)

    def _stages(self, record: StepRecord, start_ns: int, end_ns: int) -> Iterator[Event]:
        name = f"{record.mode.upper()} {record.phase} x{record.batch}"
        yield chrome.span(self.track(STEPS), name, start_ns, end_ns, _told(record))
        at_s = record.start_s
        for stage, seconds in (
            ("move", record.moved_s),
            ("draft", record.draft_s),
            ("verify" if record.drafts else record.phase, record.target_s),
            ("update", record.update_s),
        ):
            began_ns, at_s = max(_ns(at_s), start_ns), at_s + seconds
            if (over_ns := min(_ns(at_s), end_ns)) > began_ns:
                yield chrome.span(self.track(STEPS), stage, began_ns, over_ns, {})

    def _marks(self, record: StepRecord, start_ns: int, end_ns: int) -> Iterator[Event]:
        track = self.track(EVENTS)
        if self.mode and self.mode != record.mode:
            name = f"{self.mode.upper()} to {record.mode.upper()}"
            yield chrome.instant(track, name, start_ns, {"reason": record.reason, "batch": record.batch})
        for name, count, at_ns in (
            ("preemption", record.preemptions, start_ns),
            ("KV spilled", record.spilled_tokens, start_ns),
            ("KV fetched", record.fetched_tokens, start_ns),
            ("underrun", record.underruns, end_ns),
        ):
            if count:
                yield chrome.instant(track, name, at_ns, {"count": count})
        if record.swaps:
            took = {"ms": 1000 * record.swap_s, "mJ": 1000 * record.swap_j}
            yield chrome.instant(track, "expert swap", start_ns, {"count": record.swaps} | took)

    def _counted(self, record: StepRecord) -> dict[str, float]:
        traffic, seconds = Traffic(*record.traffic_bytes), record.latency_s
        counted: dict[str, float] = {
            "batch": record.batch,
            "waiting": record.waiting,
            "KV cache (tokens)": record.kv_tokens,
        }
        if seconds > 0:
            values = (sum(record.energy_j), traffic.hb_bytes / 1e9, traffic.ext_bytes / 1e9)
            counted |= {name: value / seconds for name, value in zip(self._of_steps[1:], values, strict=True)}
        if record.expert_lookups:
            counted["expert hits (%)"] = 100 * record.expert_hits / record.expert_lookups
        if record.drafted:
            counted["accepted drafts (%)"] = 100 * record.accepted / record.drafted
        return counted

    def _count(self, values: dict[str, float], at_ns: int) -> Iterator[Event]:
        for name, value in values.items():
            if self.counters.get(name) != value:
                self.counters[name] = value
                yield chrome.counter(self.pid, name, at_ns, value)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _told(record: StepRecord) -> dict[str, object]:
    said: dict[str, object] = {
        "batch": record.batch,
        "new tokens": record.new_tokens,
        "reason": record.reason,
        "energy (J)": sum(record.energy_j),
        "late (real ms)": 1000 * record.late_real_s,
    }
    if record.drafts:
        said |= {"drafting": record.drafts, "drafted": record.drafted, "accepted": record.accepted}
        said |= {"width": record.width, "verified": record.verified}
        said["sequences by accepted drafts"] = list(record.accepted_by)
    return said
