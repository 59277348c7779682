"""Is a scenario's text parsed once, and are the types that come of it no keys?"""

import pickle
from dataclasses import fields, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from serving.policies.routing import ROUTERS, Score, parse_router
from serving.scenario.draft_depth import DepthChoice
from serving.scenario.faults import Fault
from serving.scenario.key import key_fields
from serving.scenario.scenario import Scenario
from serving.scenario.scenario_file import values_of

PARSED = {"members", "fault_specs", "router_spec", "draft_depth", "slo"}
TEXTS: dict[str, st.SearchStrategy[Any]] = {
    "fleet": st.sampled_from([(), ("2 x elmoe3d-4gb",), ("elmoe3d-8gb+none", "xpu/elmoe3d-4gb", "elmoe3d-4gb")]),
    "faults": st.sampled_from([(), ("stall: for=1, rate=2",), ("hb: left=0.5", "lost: device=1, at=3")]),
    "router": st.sampled_from([*ROUTERS, "score: load=2, topic=0"]),
    "depth": st.sampled_from(["", "auto", "1", "20"]),
    "slo_classes": st.sampled_from([("chat: ttft_ms=500",), ("a: priority=1", "b: tpot_ms=9")]),
}
scenarios = st.fixed_dictionaries({}, optional=TEXTS).map(lambda values: Scenario(**values))


def parsed(scenario: Scenario) -> dict[str, Any]:
    return {name: getattr(scenario, name) for name in PARSED}


def test_what_text_stands_for_lies_beside_it() -> None:
    scenario = Scenario(
        fleet=("2 x elmoe3d-4gb",), faults=("stall: for=2",), router="score: topic=2", depth="7", slo_classes=("a:",)
    )
    assert [str(member) for member in scenario.members] == ["elmoe3d/elmoe3d-4gb+elastic"] * 2
    assert scenario.fault_specs == (Fault("stall", for_s=2.0),)
    assert scenario.router_spec.weights["topic"] == 2.0 and isinstance(scenario.router_spec.policy(), Score)
    assert scenario.router_spec.asks_topics and scenario.asks_topics
    assert (scenario.draft_depth, Scenario().draft_depth) == (7, DepthChoice.CALIBRATED)
    assert list(scenario.slo) == ["a"]


def test_they_are_no_keys() -> None:
    assert {field.name for field in fields(Scenario)} - {field.name for field in key_fields(Scenario)} == PARSED
    assert not PARSED & values_of(Scenario()).keys()
    assert not any(f"{name}=" in repr(Scenario()) for name in PARSED - {"slo"})


@given(scenarios)
def test_a_copy_has_them_as_the_original_has(scenario: Scenario) -> None:
    for copy in (replace(scenario), pickle.loads(pickle.dumps(scenario)), Scenario(**values_of(scenario))):
        assert copy == scenario and hash(copy) == hash(scenario)
        assert parsed(copy) == parsed(scenario)


@given(scenarios, scenarios)
def test_one_that_is_changed_has_those_of_the_other(one: Scenario, other: Scenario) -> None:
    assert parsed(replace(one, **values_of(other))) == parsed(other)


def test_each_device_pool_has_a_router_of_its_own() -> None:
    spec = parse_router("round-robin")
    assert spec.policy() is not spec.policy()
