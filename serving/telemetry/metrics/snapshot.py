"""The status of an emulation, from its metrics."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from serving.cluster.node import State
from serving.scenario.slo import NO_CLASS
from serving.telemetry.metrics import Metrics
from serving.telemetry.metrics.families import Labels
from serving.telemetry.metrics.host import WINDOW_S, HostMetrics
from serving.telemetry.metrics.requests import DeviceLoad
from serving.telemetry.metrics.service import MET, MISSED
from serving.telemetry.status import DeviceNow, HostNow, Latency, SloNow, Status
from serving.types import NEVER


class _ByDevice(NamedTuple):
    """Families of devices' series that are not 0, by device: each is gone through once, and not once a device."""

    state: Mapping[str, Mapping[Labels, float]]
    mode: Mapping[str, Mapping[Labels, float]]
    faults: Mapping[str, Mapping[Labels, float]]
    steps: Mapping[str, Mapping[Labels, float]]
    switches: Mapping[str, Mapping[Labels, float]]

    @classmethod
    def of(cls, metrics: Metrics) -> "_ByDevice":
        steps, devices = metrics.steps, metrics.devices
        families = devices.device, steps.mode, devices.fault_active, steps.modes, steps.switches
        return cls(*(_by_device(family.values) for family in families))


def status_of(metrics: Metrics) -> Status:
    """Return the status, from the metrics."""
    queue, loads, series = metrics.service.waiting_now(), metrics.requests.loads(), _ByDevice.of(metrics)
    by_topic: dict[str, int] = {}
    for (_, topic, _), count in queue.items():
        by_topic[topic] = by_topic.get(topic, 0) + int(count)
    recent = metrics.service.recent
    return Status(
        about=metrics.about,
        emulated_s=metrics.now(),
        devices=[_device(metrics, index, loads[index], series) for index in sorted(metrics.devices.models)],
        slos=[_slo(metrics, name, queue) for name in metrics.service.names() if name != NO_CLASS],
        waiting=by_topic,
        oldest_s=max(metrics.service.oldest_now().values(), default=0.0),
        ttft=_latency([ttft_s for ttft_s, _ in recent]),
        tpot=_latency([tpot_s for _, tpot_s in recent if tpot_s]),
        restarts={labels[0]: int(count) for labels, count in metrics.devices.restarts.values.items()},
        host=_host(metrics.host),
    )


def _host(host: HostMetrics) -> HostNow:
    pace = host.pace
    return HostNow(
        over_s=WINDOW_S,
        too_slow=host.sentence(),
        lateness_share=pace.lateness_share,
        pacing_share=pace.pacing_share,
        underrun_share=pace.underrun_share,
        late_p99_s=host.late_p99_s,
    )


def _device(metrics: Metrics, index: int, load: DeviceLoad, series: _ByDevice) -> DeviceNow:
    steps, devices, name = metrics.steps, metrics.devices, str(index)
    one = (name,)
    served = metrics.requests.labels_of(index)
    used = devices.used_bytes(index)
    # `get` where a device may have no series: a look makes none.
    return DeviceNow(
        index=index,
        hardware=devices.hardware[index],
        tiers=(devices.models[index].tiers.fast, devices.models[index].tiers.slow),
        state=next((labels[2] for labels in series.state[name]), State.GONE),
        mode=next((labels[1] for labels in series.mode[name]), ""),
        batch=load.running,
        waiting=load.waiting,
        kv_share=metrics.requests.kv_usage.values.get(served, 0.0),
        busy_share=devices.busy_share(index),
        ext_share=devices.ext_share(index),
        hit_share=steps.hit_rate.values.get(one, 0.0),
        power_w=devices.power_w(index),
        hb_bytes={kind: bytes_ for (tier, kind), bytes_ in used.items() if tier == devices.models[index].tiers.fast},
        hb_capacity_bytes=devices.models[index].hb.capacity_bytes,
        faults=[labels[1] for labels in series.faults[name]],
        tokens=int(steps.tokens.values[one]),
        energy_j=metrics.energy_j(index),
        step_energy_j=steps.energy_j(index),
        steps={mode: _sum(series.steps[name], name, mode) for mode in ("ar", "sd")},
        switches=_sum(series.switches[name], name),
        drafted=int(metrics.requests.counted["drafted"].values[served]),
        accepted=int(metrics.requests.counted["accepted"].values[served]),
        recorded=int(steps.recorded.values[one]),
        underruns=int(steps.underruns.values[one]),
    )


def _slo(metrics: Metrics, name: str, queue: dict[Labels, float]) -> SloNow:
    service = metrics.service
    ttft_s, tpot_s = (service.targets.values.get((name, target), NEVER) for target in ("ttft", "tpot"))
    ended = {MET: 0, MISSED: 0}
    for (slo, _, met), count in service.requests.values.items():
        ended[met] += int(count) if slo == name else 0
    return SloNow(
        name=name,
        ttft_s=None if ttft_s == NEVER else ttft_s,
        tpot_s=None if tpot_s == NEVER else tpot_s,
        met=ended[MET],
        missed=ended[MISSED],
        rejected=_sum(service.rejections.values, name),
        waiting=sum(int(count) for (_, _, slo), count in queue.items() if slo == name),
    )


def _by_device(values: Mapping[Labels, float]) -> Mapping[str, Mapping[Labels, float]]:
    """Return the series of a family that are not 0, by their first label: the device."""
    series: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
    for labels, value in values.items():
        if value:
            series[labels[0]][labels] = value
    return series


def _sum(values: Mapping[Labels, float], *first: str) -> int:
    return int(sum(count for labels, count in values.items() if labels[: len(first)] == first))


def _latency(seconds: list[float]) -> Latency:
    if not seconds:
        return Latency(None, None)
    p50_s, p99_s = np.percentile(seconds, (50, 99)).tolist()
    return Latency(p50_s, p99_s)
