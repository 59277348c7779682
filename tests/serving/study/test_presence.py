"""Does a device that has nothing to do draw what its condition draws, and nothing while it is lost?"""

import pytest

from device_model.condition import HEALTHY, Condition
from serving.device.device_spec import DeviceSpec
from serving.scenario.scenario import Scenario
from serving.simulation.node import VirtualDevice
from serving.study.measures.presence import Presence
from serving.study.run import simulate
from serving.workload.spec import workload_of
from serving.workload.table import WorkloadTable

BROKEN = Condition(hb_share=0.25)


def device(condition: Condition, at_s: float, serving: bool = True) -> VirtualDevice:
    scenario = Scenario()
    spec = DeviceSpec.of(scenario, scenario.members[0]).in_condition(condition)
    return VirtualDevice(0, spec, spec.device_limits(spec.load()), serving, at_s)


def static_w(condition: Condition) -> float:
    return device(condition, 0.0).device_limits.static_w


def test_a_broken_device_idles_at_fewer_watts() -> None:
    healthy_w, broken_w = static_w(HEALTHY), static_w(BROKEN)
    assert broken_w < 0.9 * healthy_w
    presence = Presence()
    presence.change(device(HEALTHY, 0.0))
    presence.work(0, 1.0, 2.0)
    presence.change(device(BROKEN, 10.0))
    # A step during which it broke is told of after that; and so is one that began in time.
    presence.work(0, 9.0, 3.0)
    presence.work(0, 15.0, 1.0)
    assert presence.idle_j(20.0) == pytest.approx(7.0 * healthy_w + 7.0 * broken_w)
    assert (presence.there_s(20.0), presence.busy_s(20.0)) == (20.0, 6.0)


def test_a_lost_device_draws_nothing() -> None:
    presence = Presence()
    presence.change(device(HEALTHY, 0.0))
    presence.change(device(HEALTHY, 5.0, serving=False))
    presence.change(device(HEALTHY, 8.0))
    presence.work(0, 8.0, 1.0)
    assert presence.there_s(10.0) == 7.0
    assert presence.idle_j(10.0) == pytest.approx(6.0 * static_w(HEALTHY))


def test_a_fault_of_a_run_changes_what_its_device_idles_at() -> None:
    few = workload_of(
        WorkloadTable(
            {"requests": 20, "arrivals": {"kind": "constant", "rate_per_s": 0.5}, "prompt": 60, "output": 20}, None
        )
    )
    runs = [simulate(Scenario(faults=faults), few).summary for faults in ((), ("hb: left=0.25",))]
    for run, watts in zip(runs, (static_w(HEALTHY), static_w(BROKEN)), strict=True):
        idle_s = run["span_s"] * (1 - run["busy_share"])
        assert idle_s > 0.5 * run["span_s"] and run["idle_joules"] == pytest.approx(idle_s * watts)
