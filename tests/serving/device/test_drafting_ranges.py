"""Is what `serve` says of where it drafts what the device does there?"""

import pytest

from device_model.step import StepPlan
from serving.device.device_spec import DeviceSpec
from serving.device.drafting_ranges import paying_ranges, told_drafting
from serving.policies.hysteresis import LEAD
from serving.policies.step_option import PLAIN
from serving.scenario.scenario import Scenario
from serving.simulation.simulator import Simulator
from serving.types import Request


def specs(*scenarios: Scenario) -> list[DeviceSpec]:
    return [DeviceSpec.of(scenario, scenario.members[0]) for scenario in scenarios]


def told(*scenarios: Scenario, most: int = 64, max_context: int = 32_768) -> list[str]:
    return list(told_drafting(specs(*scenarios), most, max_context))


@pytest.mark.parametrize("hardware", ["elmoe3d-4gb", "elmoe3d-8gb"])
@pytest.mark.parametrize("context", [1024, 4096])
def test_batches_are_those_that_are_faster_and_no_others(hardware: str, context: int) -> None:
    [spec] = specs(Scenario(hardware=hardware))
    options, faster = spec.load(), set()
    for batch in range(1, 33):
        of = StepPlan.of(*[(1, context)] * batch)
        plain, drafting = options.price(of, depths=(PLAIN, options.calibrated))
        if 1 - plain.tokens_per_s / drafting.tokens_per_s > LEAD:
            faster.add(batch)
    found = paying_ranges(options, spec.mode_choice.depths(options), context, 32)
    assert {batch for run in found for batch in run} == faster and sum(map(len, found)) == len(faster)


def test_a_sentence_names_batches_at_each_context_once_for_equal_devices() -> None:
    [sentence] = told(*[Scenario(hardware="elmoe3d-4gb")] * 3, max_context=4096)
    assert sentence.startswith("elmoe3d-4gb drafts where that is faster: in batches at 1k of 4 to ")
    assert sentence.endswith(" at 2k of 4 to 17, at 4k of 4 to 7 (mode tau).")


def test_where_all_batches_up_from_one_draft_it_says_so() -> None:
    [sentence] = told(Scenario(), most=16, max_context=2048)
    assert (
        sentence == "elmoe3d-8gb drafts where that is faster: in batches at 1k from 2 on, at 2k from 2 on (mode tau)."
    )


@pytest.mark.parametrize(("placement", "first", "mode"), [("lru", 4, "ar"), ("hot", 1, "sd"), ("topic", 1, "sd")])
def test_it_goes_by_where_experts_are_placed(placement: str, first: int, mode: str) -> None:
    scenario = Scenario(hardware="elmoe3d-4gb", placement=placement)
    [sentence] = told(scenario, max_context=2048)
    assert sentence.startswith(f"elmoe3d-4gb drafts where that is faster: in batches at 1k of {first} to ")
    _, records = Simulator(scenario).serve([Request("alone", 0.0, 1000, 200)])
    assert {record.mode for record in records if record.phase == "decode"} == {mode}


def test_a_named_tau_is_told_and_nothing_is_where_nothing_is_chosen() -> None:
    assert told(Scenario(tau=4)) == ["elmoe3d-8gb drafts from a batch of 4 on, at any context."]
    others = [Scenario(mode="cost"), Scenario(mode="fixed-ar"), Scenario(draft="none"), Scenario(residency="trace")]
    assert told(*others) == []


@pytest.mark.parametrize(
    ("mode", "unused"),
    [("fixed-ar", "tau, depth, width, verify, objective"), ("fixed-sd", "tau"), ("cost", "tau"), ("tau", "")],
)
def test_what_a_mode_has_no_use_for_is_told_once(mode: str, unused: str) -> None:
    scenario = Scenario(mode=mode, tau=4, depth="auto", width=1, verify=4, objective="energy", devices=2)
    sentences = [sentence for sentence in told(scenario, scenario) if sentence.startswith("Set, ")]
    assert sentences == ([f"Set, and without effect in mode {mode}: {unused}."] if unused else [])


@pytest.mark.parametrize(("mode", "unused"), [("fixed-sd", ["objective"]), ("tau", ["objective"]), ("cost", [])])
def test_an_objective_has_no_use_where_nothing_is_chosen_by_cost(mode: str, unused: list[str]) -> None:
    by_itself, by_depth = (Scenario(mode=mode, depth=depth, objective="energy") for depth in ("6", "auto"))
    assert DeviceSpec.of(by_itself, by_itself.members[0]).mode_choice.unused() == unused
    assert DeviceSpec.of(by_depth, by_depth.members[0]).mode_choice.unused() == []


def test_a_context_below_the_shortest_is_told_of_by_itself() -> None:
    [sentence] = told(Scenario(max_model_len=512), most=16, max_context=512)
    assert sentence == "elmoe3d-8gb drafts where that is faster: in batches at 512 tokens from 2 on (mode tau)."


def test_devices_that_share_their_slow_tier_draft_sooner_and_the_sentence_says_when() -> None:
    alone, shared = (Scenario(hardware="elmoe3d-4gb", devices=4, shared_ext=count) for count in (1, 4))
    [sentence] = told(shared, max_context=1024)
    assert "in batches at 1k of 1 to " in sentence
    assert sentence.endswith(" (mode tau), while all 4 that share its slow tier are busy.")
    assert "in batches at 1k of 4 to " in told(alone, max_context=1024)[0]
    assert told(Scenario(devices=4, shared_ext=4, tau=4)) == told(Scenario(tau=4))
