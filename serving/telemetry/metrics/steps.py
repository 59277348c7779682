"""Step metrics: time, energy, traffic, drafts, and how well the host keeps the devices' pace."""

from prometheus_client import CollectorRegistry

from device_model.specs.hardware import TierNames
from device_model.step import Energy, Traffic
from serving.flight import TokenNews
from serving.telemetry.metrics.families import Counters, Gauges, Histograms
from serving.telemetry.metrics.requests import FINE_S
from serving.types import StepRecord

STEP_S = (*FINE_S, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0)
LATENESS_S = (1e-5, 3e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 3e-2, 5e-2, 0.1, 0.3, 1.0, 3.0, 10.0)
BATCH = (1, 2, 4, 8, 16, 32, 64, 128, 256)
ACCEPTED = (*range(11), 12, 16)
COMPONENTS = tuple(name.removesuffix("_j") for name in Energy._fields)
TIERS = tuple(name.removesuffix("_bytes") for name in Traffic._fields)
MODES = ("ar", "sd")
# What the target's own pass is, by the phase of a step that doesn't draft.
VERIFY = "verify"
DEVICE = ("device",)


class StepMetrics:
    """Made from step records. `_seconds` are emulated, but for lateness, which is the host's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def total(name: str, text: str, *labels: str) -> Counters:
            return Counters(registry, f"foreserve_{name}", text, (*DEVICE, *labels))

        def tallies(name: str, text: str, bounds: tuple[float, ...], *labels: str) -> Histograms:
            return Histograms(registry, f"foreserve_{name}", text, (*DEVICE, *labels), bounds)

        self.latency = tallies("step_latency_seconds", "Modelled latency of a step.", STEP_S, "mode", "phase")
        self.batch = tallies("batch_size", "Sequences in a step.", BATCH, "mode", "phase")
        self.accepted = tallies("accepted_length", "Drafts of a sequence accepted in a step.", ACCEPTED)
        self.pacing = tallies(
            "pacing_error_seconds", "Real seconds by which a device released a step after its instant.", LATENESS_S
        )
        self.delivery = tallies(
            "delivery_delay_seconds", "Real seconds from a release's instant to its client's stream.", LATENESS_S
        )
        self.stages = total(
            "stage_seconds", "Modelled time, by what it is spent on; tiers are moved between when `move`.", "stage"
        )
        self.busy = total("busy_seconds", "Emulated seconds in which the device worked.")
        self.energy = total("energy_joules", "Modelled energy of steps, by component.", "component")
        self.traffic = total("tier_bytes", "Modelled traffic, by memory tier.", "tier")
        self.modes = total("mode_steps", "Steps in a mode, by the reason for it.", "mode", "reason")
        self.switches = total("mode_switches", "Changes of the mode, by the new one and the reason.", "to", "reason")
        self.moved = total("kv_moved_tokens", "Tokens of KV cache spilled to the slow tier, or fetched.", "direction")
        self.swaps = total("expert_swaps", "Times that the fast tier was given the experts of other topics.")
        self.swap_s = total("expert_swap_seconds", "Modelled time of these, in which the device did nothing else.")
        self.swap_j = total("expert_swap_joules", "Modelled energy of these.")
        self.lookups = total("expert_lookups", "Reads of an expert by a step.")
        self.hits = total("expert_hits", "Reads of an expert that the fast tier held.")
        self.beyond = total(
            "hits_beyond_hb", "Hits that the paper's law has beyond what HB holds: if some, laws differ."
        )
        self.unpublished = total("unpublished_steps", "Steps beyond the batches and HB sizes that the paper published.")
        self.underruns = total("underruns", "Tokens that a device had to release and vLLM had not made.")
        self.slips = total("arrival_slips", "Arrivals that missed a step because news of them came late.")
        self.unrouted = total("unrouted_tokens", "Tokens whose experts a traced cache had to guess.")
        self.tokens = total("released_tokens", "Tokens released to clients.")
        self.recorded = total("recorded_tokens", "Released tokens of answers that were recorded before.")
        self.mode = Gauges(
            registry, "foreserve_mode", "1 for the mode of the last step that decoded.", ("device", "mode")
        )
        self.hit_rate = Gauges(
            registry, "foreserve_hb_hit_rate", "Share of the last step's expert reads that the fast tier held.", DEVICE
        )
        self._mode: dict[int, str] = {}
        self._names: dict[int, list[tuple[str, ...]]] = {}

    def begin(self, device: int, tiers: TierNames) -> None:
        """Create the series of a device, whose memory `tiers` are called so, at the start."""
        one = (str(device),)
        self._names[device] = [tuple(map(tiers.of, names)) for names in (COMPONENTS, TIERS)]
        for total in (self.underruns, self.slips, self.unrouted, self.tokens, self.recorded, self.busy, self.swaps):
            total.values[one] += 0
        for total in (self.swap_s, self.swap_j, self.lookups, self.hits, self.beyond, self.unpublished):
            total.values[one] += 0
        components, names = self._names[device]
        for component in components:
            self.energy.values[(*one, component)] += 0
        for tier in names:
            self.traffic.values[(*one, tier)] += 0
        for direction in ("spilled", "fetched"):
            self.moved.values[(*one, direction)] += 0
        for tallies in (self.pacing, self.delivery, self.accepted):
            tallies.of(one)
        for mode in MODES:
            self.mode.values[(*one, mode)] += 0

    def end(self, device: int) -> None:
        """Forget a device that is gone, as its series end."""
        self._names.pop(device, None)
        self._mode.pop(device, None)

    def energy_j(self, device: int) -> float:
        """Return the joules that a device has drawn in steps."""
        components, _ = self._names[device]
        return sum(self.energy.values[(str(device), component)] for component in components)

    def on_step(self, record: StepRecord) -> None:
        """Record that a device made a step."""
        device = str(record.device)
        one, step = (device,), (device, record.mode, record.phase)
        self.latency.of(step).observe(record.latency_s)
        self.batch.of(step).observe(record.batch)
        self.pacing.of(one).observe(record.late_real_s)
        self.busy.values[one] += record.latency_s
        self.modes.values[(device, record.mode, record.reason)] += 1
        components, tiers = self._names[record.device]
        for component, joules in zip(components, record.energy_j, strict=True):
            self.energy.values[(device, component)] += joules
        for tier, moved in zip(tiers, record.traffic_bytes, strict=True):
            self.traffic.values[(device, tier)] += moved
        self._count_stages(device, record)
        self._count_rare(device, record)
        if record.expert_lookups:
            self.lookups.values[one] += record.expert_lookups
            self.hits.values[one] += record.expert_hits
            self.hit_rate.values[one] = record.expert_hits / record.expert_lookups
        if record.phase != "prefill" and self._mode.get(record.device) != record.mode:
            self._switch(device, record)

    def on_tokens(self, news: TokenNews) -> None:
        """Record tokens that a device released."""
        one = (str(news.device),)
        self.tokens.values[one] += news.tokens
        self.recorded.values[one] += news.recorded

    def on_delivery(self, device: int, delay_s: float) -> None:
        """Record that a release was written to its clients' streams, `delay_s` real seconds after its instant."""
        self.delivery.of((str(device),)).observe(max(0.0, delay_s))

    def _count_stages(self, device: str, record: StepRecord) -> None:
        stages = self.stages.values
        if record.drafts:
            stages[(device, "draft")] += record.draft_s
            stages[(device, "update")] += record.update_s
            stages[(device, VERIFY)] += record.target_s
            accepted = self.accepted.of((device,))
            for length, times in enumerate(record.accepted_by):
                if times:
                    accepted.observe(length, times)
        else:
            stages[(device, record.phase)] += record.target_s + record.update_s
        if record.moved_s:
            stages[(device, "move")] += record.moved_s

    def _count_rare(self, device: str, record: StepRecord) -> None:
        for total, count in (
            (self.underruns, record.underruns),
            (self.slips, record.slips),
            (self.unrouted, record.unrouted),
            (self.swaps, record.swaps),
            (self.swap_s, record.swap_s),
            (self.swap_j, record.swap_j),
            (self.beyond, record.hits_beyond_hb),
            (self.unpublished, record.unpublished),
        ):
            if count:
                total.values[(device,)] += count
        if record.spilled_tokens or record.fetched_tokens:
            self.moved.values[(device, "spilled")] += record.spilled_tokens
            self.moved.values[(device, "fetched")] += record.fetched_tokens

    def _switch(self, device: str, record: StepRecord) -> None:
        if record.device in self._mode:
            self.switches.values[(device, record.mode, record.reason)] += 1
        self._mode[record.device] = record.mode
        for mode in MODES:
            self.mode.values[(device, mode)] = float(mode == record.mode)
