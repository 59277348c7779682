"""Device metrics: state, memory, power, faults, and restarts of actors."""

from collections.abc import Callable
from functools import lru_cache

from prometheus_client import CollectorRegistry

from device_model.device import RooflineDevice
from device_model.specs.hardware import TierNames
from serving.cluster.node import Node, State
from serving.device.device_spec import DeviceSpec
from serving.scenario.faults import ANYWHERE, STALL
from serving.scenario.fleet import MOST_DEVICES
from serving.telemetry.metrics.families import Counters, Gauges, Labels
from serving.telemetry.metrics.in_flight import InFlight
from serving.telemetry.metrics.window import Window
from serving.types import StepRecord

# As `Metrics.on_restart` hears of it.
TOKEN_SOURCE = "token source"

# As `Metrics.on_dropped` hears of them.
OF_ALL, OF_A_DEVICE = ("edge", "device model"), ("device", "scheduler", "lpddr")


@lru_cache(2 * MOST_DEVICES)
def device_of(spec: DeviceSpec) -> RooflineDevice:
    """Load a device, once for all of its kind in a condition."""
    return spec.load().device


def labels_of(name: str) -> dict[str, list[str]]:
    """Return the values that labels of a device's series have, by label, for the device's index as text."""
    receivers = [f"{part} {name}" for part in OF_A_DEVICE]
    return {"device": [name], "engine": [name], "actor": [f"device {name}"], "receiver": receivers}


class DeviceMetrics:
    """Metrics of devices, made from their changes of state and the last step of each."""

    def __init__(self, registry: CollectorRegistry, now: Callable[[], float], in_flight: InFlight) -> None:
        """`now`: the emulated instant."""
        self._now = now
        self._in_flight = in_flight
        self._off: set[int] = set()
        self._paused: set[int] = set()
        self.models: dict[int, RooflineDevice] = {}
        self.hardware: dict[int, str] = {}
        self._sharers: dict[int, int] = {}
        self._windows: dict[int, Window] = {}
        self._last: dict[int, StepRecord] = {}
        self._idle_since_s: dict[int, float] = {}
        self._stalled_until_s: dict[int, float] = {}
        self.device = Gauges(
            registry,
            "foreserve_device",
            "1 for the state in which a device is, of all those in which it has been.",
            ["device", "hardware", "state"],
        )
        self.capacity = Gauges(
            registry,
            "foreserve_tier_capacity_bytes",
            "Memory that a device has now, by tier; of a shared one its even share.",
            ["device", "tier"],
        )
        self.bandwidth = Gauges(
            registry,
            "foreserve_tier_bandwidth_bytes_per_second",
            "What a tier delivers now if a device has it for itself, per emulated second.",
            ["device", "tier"],
        )
        self.used = Gauges(
            registry,
            "foreserve_tier_used_bytes",
            "Memory in use by tier and kind, of a shared tier's weights an even share; experts in HB are copies, and"
            " while it drafts the slices that drafts are made of.",
            ["device", "tier", "kind"],
            self._used,
        )
        self.power = Gauges(
            registry,
            "foreserve_power_watts",
            "Modelled power, mean over the last emulated second.",
            ["device"],
            self._power,
        )
        self.idle = Counters(
            registry,
            "foreserve_idle_energy_joules",
            "Modelled energy between steps: static power.",
            ["device"],
            self._idle_energy,
        )
        self.fault_active = Gauges(
            registry, "foreserve_fault_active", "Faults that a device has now, by kind.", ["device", "kind"]
        )
        self.faults = Counters(registry, "foreserve_faults", "Faults that have come.", ["device", "kind"])
        self.restarts = Counters(
            registry,
            "foreserve_actor_restarts",
            "Devices (with their schedulers) and token sources that came back.",
            ["actor"],
        )

        self.dropped = Counters(
            registry, "foreserve_unreadable_messages", "Messages that a process got and could not read.", ["receiver"]
        )

    def on_change(self, node: Node) -> None:
        """Record that a device has joined, or has changed its state or condition."""
        device, name = device_of(node.spec), str(node.index)
        if node.index not in self.models:
            self._begin(name, device.tiers)
        else:
            # What it drew until now, it drew in the condition that it was in.
            self._account(node.index)
        self.models[node.index], self.hardware[node.index] = device, node.spec.hardware
        self._sharers[node.index] = node.spec.sharers
        self._windows.setdefault(node.index, Window())
        self._idle_since_s.setdefault(node.index, self._now())
        for labels in self.device.values:
            if labels[0] == name:
                self.device.values[labels] = 0
        self.device.values[(name, str(node.spec.member), str(node.state))] = 1
        self._switch(node.index, on=node.state not in (State.LOST, State.GONE))
        self._pause(node.index, on=node.paused_until_s > self._now())
        if node.state is State.GONE:
            self._forget(node.index)
            return
        for tier, memory, bytes_ in zip(
            device.tiers, (device.hb, device.ext), self.capacity_bytes(node.index), strict=True
        ):
            self.capacity.values[(name, tier)] = bytes_
            self.bandwidth.values[(name, tier)] = memory.bytes_per_s
        if not node.up:
            self.on_idle(node.index)

    def _begin(self, name: str, tiers: TierNames) -> None:
        """Create a device's series at the start: a rate misses a counter's first event otherwise."""
        named = labels_of(name)
        for actor in (TOKEN_SOURCE, *named["actor"]):
            self.restarts.values[(actor,)] += 0
        for receiver in (*OF_ALL, *named["receiver"]):
            self.dropped.values[(receiver,)] += 0
        for kind in (*ANYWHERE, *tiers):
            self.faults.values[(name, kind)] += 0
            self.fault_active.values[(name, kind)] += 0

    def on_step(self, record: StepRecord) -> None:
        """Record a step. A drained device's last step is reported after it is gone."""
        if record.device not in self.models:
            return
        self._last[record.device] = record
        self._idled(record.device, record.start_s)
        self._windows[record.device].add(record)

    def on_idle(self, device: int) -> None:
        """Record that a device has nothing left to do."""
        self._last.pop(device, None)

    def on_fault(self, device: int, kind: str, begins: bool) -> None:
        """Record that a fault came over a device, or is over."""
        self.fault_active.values[(str(device), kind)] += 1 if begins else -1
        self.faults.values[(str(device), kind)] += begins
        if kind == STALL and not begins:
            self._stalled_until_s[device] = self._now()

    def on_dropped(self, receiver: str, count: int) -> None:
        """Messages could not be read."""
        self.dropped.values[(receiver,)] += count

    def on_restart(self, actor: str) -> None:
        """Record that an actor died and came back."""
        self.restarts.values[(actor,)] += 1

    def idle_j(self, index: int) -> float:
        """Return the joules that a device has drawn between steps."""
        self._account(index)
        return self.idle.values[(str(index),)]

    def power_w(self, index: int) -> float:
        """Mean power of a device over the last emulated second."""
        if index in self._off:
            return 0.0
        return self._windows[index].power_w(self._until_s(index), self.models[index].static_w)

    def busy_share(self, index: int) -> float:
        """Return the share of the last emulated second in which a device worked."""
        return self._windows[index].busy_share(self._until_s(index))

    def ext_share(self, index: int) -> float:
        """Return the share of its external bandwidth that a device used in the last emulated second: at most all, where
        it was throttled within that second and is told by what it has now."""
        used_bytes_per_s = self._windows[index].ext_bytes_per_s(self._until_s(index))
        return min(1.0, used_bytes_per_s / self.models[index].ext.bytes_per_s)

    def capacity_bytes(self, index: int) -> tuple[float, float]:
        """Return the bytes of a device's fast tier, and of its slow one; of one that devices share, its even share, so
        that all devices together have what there is."""
        model = self.models[index]
        return model.hb.capacity_bytes, model.ext.capacity_bytes / self._sharers[index]

    def used_bytes(self, index: int) -> dict[tuple[str, str], float]:
        """Return the bytes that a device's memory holds, by tier and kind. Of weights that a slow tier holds once for
        the devices that share it, it has an even share; its KV cache is its own."""
        last = self._last.get(index)
        model, sharers = self.models[index], self._sharers[index]
        held = model.placement.used(last.kv_tokens, last.mode == "sd") if last else model.placement.used(0)
        used = {
            (model.tiers.of(tier), kind): bytes_ / (sharers if tier == "ext" and kind != "kv" else 1)
            for (tier, kind), bytes_ in held.items()
        }
        return dict.fromkeys(used, 0.0) if index in self._off else used

    def _until_s(self, index: int) -> float:
        """Return the end of a device's accounted time, that of its last step apart: a step under way is unknown, and no
        pause, unless the device stands still."""
        stands = self.fault_active.values[(str(index), STALL)] or index in self._paused
        if stands or not self._works(index):
            return self._now()
        return max(self._idle_since_s[index], self._stalled_until_s.get(index, 0.0))

    def _works(self, index: int) -> bool:
        """Tell whether a device has anything to do: if so, the record of its next step says since when."""
        return index in self._last or self._in_flight.on(index) > 0

    def _switch(self, index: int, on: bool) -> None:
        """Switch a device on or off: one that is lost draws nothing, and holds nothing."""
        if on and index in self._off:
            self._idle_since_s[index] = self._now()
        elif not on and index not in self._off:
            self._idled(index, self._now())
        (self._off.discard if on else self._off.add)(index)

    def _pause(self, index: int, on: bool) -> None:
        """Record whether an operator has a device stand still."""
        if index in self._paused and not on:
            self._stalled_until_s[index] = self._now()
        (self._paused.add if on else self._paused.discard)(index)

    def _idled(self, index: int, until_s: float) -> None:
        """Record that a device had nothing to do since its last step, or since this was asked last."""
        since_s = max(self._idle_since_s[index], self._windows[index].ended_s)
        if until_s > since_s:
            self.idle.values[(str(index),)] += (until_s - since_s) * self.models[index].static_w
            self._idle_since_s[index] = until_s

    def _idle_energy(self) -> dict[Labels, float]:
        for index in self.models:
            self.idle_j(index)
        return self.idle.values

    def _account(self, index: int) -> None:
        """Record what a device has drawn until now, if it has nothing to do."""
        if not self._works(index) and index not in self._off:
            self._idled(index, self._now())

    def _forget(self, index: int) -> None:
        of_all = (self.models, self.hardware, self._sharers, self._windows, self._last)
        for known in (*of_all, self._idle_since_s, self._stalled_until_s):
            known.pop(index, None)  # type: ignore[attr-defined]
        self._off.discard(index)
        self._paused.discard(index)
        for levels in (self.capacity, self.bandwidth, self.fault_active):
            for labels in levels.values:
                if labels[0] == str(index):
                    levels.values[labels] = 0

    def _used(self) -> dict[Labels, float]:
        return {(str(index), *what): used for index in self.models for what, used in self.used_bytes(index).items()}

    def _power(self) -> dict[Labels, float]:
        return {(str(index),): self.power_w(index) for index in self.models}
