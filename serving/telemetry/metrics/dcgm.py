"""The emulated devices as NVIDIA's DCGM exporter would show them, so that tools which read GPUs' power read theirs.

Field names, units and labels are the exporter's (dcgm-exporter, default-counters.csv): power in W, energy in mJ,
utilisation in percent, memory in MiB. `Hostname` and `UUID` name the device; its `modelName` says that it is emulated.
"""

from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily, Metric, UntypedMetricFamily
from prometheus_client.registry import Collector

from serving.telemetry.metrics.devices import DeviceMetrics

MIB = 2**20
LABELS = ("gpu", "UUID", "device", "modelName", "Hostname")
HOST = "foreserve"
Reading = Callable[[int], float]


class Dcgm(Collector):
    """Reads devices whenever somebody scrapes."""

    def __init__(self, devices: DeviceMetrics, energy_j: Reading) -> None:
        """`energy_j`: all that a device has drawn."""
        self._devices, self._energy_j = devices, energy_j

    def collect(self) -> Iterable[Metric]:
        devices = self._devices
        yield self._gauge("POWER_USAGE", "Power draw (in W).", devices.power_w)
        yield self._energy()
        yield self._gauge("GPU_UTIL", "GPU utilization (in %).", lambda index: 100 * devices.busy_share(index))
        yield self._gauge("MEM_COPY_UTIL", "Memory utilization (in %).", lambda index: 100 * devices.ext_share(index))
        yield self._gauge("FB_USED", "Framebuffer memory used (in MiB).", lambda index: self._used(index) / MIB)
        yield self._gauge("FB_FREE", "Framebuffer memory free (in MiB).", lambda index: self._free(index) / MIB)

    def _gauge(self, name: str, text: str, read: Reading) -> Metric:
        family = GaugeMetricFamily(f"DCGM_FI_DEV_{name}", text, labels=LABELS)
        for index in self._devices.models:
            family.add_metric(self._labels(index), read(index))
        return family

    def _energy(self) -> Metric:
        # A counter, but the exporter's has no `_total`, which the library gives to each that calls itself one.
        name, text = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Total energy consumption since boot (in mJ)."
        family = UntypedMetricFamily(name, text, labels=LABELS)
        for index in self._devices.models:
            family.add_sample(name, dict(zip(LABELS, self._labels(index), strict=True)), 1000 * self._energy_j(index))
        return family

    def _labels(self, index: int) -> tuple[str, ...]:
        hardware = self._devices.hardware[index]
        return str(index), f"{HOST}-{index}", f"{HOST}{index}", f"{hardware} (emulated)", HOST

    def _used(self, index: int) -> float:
        return sum(self._devices.used_bytes(index).values())

    def _free(self, index: int) -> float:
        return max(0.0, sum(self._devices.capacity_bytes(index)) - self._used(index))
