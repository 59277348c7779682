"""Do devices whose cache is traced draft with what HB holds, in virtual time?"""

import dataclasses
from typing import Any

import pytest

from device_model.load import load_device
from serving.scenario.scenario import Scenario, ScenarioError
from serving.simulation.simulator import Simulator
from serving.types import Request, StepRecord

ELASTIC = Scenario(residency="trace", draft="elastic", mode="fixed-sd", hardware="elmoe3d-4gb")
TOPICS = ("legal", "math", "cs")


def run(scenario: Scenario, sequences: int = 6, tokens: int = 60) -> list[StepRecord]:
    requests = [Request(str(i), 0.0, 200, tokens, seed=1000 * i, topic=TOPICS[i % 3]) for i in range(sequences)]
    outcomes, records = Simulator(scenario).serve(requests)
    assert all(outcome.tokens == tokens for outcome in outcomes)
    return records


def drafting(records: list[StepRecord]) -> list[StepRecord]:
    return [record for record in records if record.mode == "sd"]


def alpha(records: list[StepRecord]) -> float:
    return sum(record.accepted for record in records) / sum(record.drafted for record in records)


@pytest.mark.parametrize("draft", ["elastic", "random", "quant", "eagle", "slm"])
def test_every_scheme_drafts_and_hb_serves_no_more_than_it_holds(draft: str) -> None:
    records = run(dataclasses.replace(ELASTIC, draft=draft))
    device = load_device("elmoe3d", ELASTIC.hardware, ELASTIC.model, draft)
    assert device.draft is not None
    share = device.draft.hb_share if device.draft.pooled else 1.0
    room = device.hb.capacity_bytes / (device.size.expert_bytes * share)
    found = drafting(records)
    assert found and not any(record.unrouted for record in records)
    for record in found:
        assert 0 <= record.expert_hits <= min(room, record.expert_lookups)
        assert record.traffic_bytes[0] <= 2 * record.latency_s * device.hb.bytes_per_s
        assert 0 < record.draft_s < record.latency_s
    assert 0 < alpha(found) < 1


def test_the_pool_fills_while_drafts_are_verified_and_a_hot_one_has_more_accepted_than_a_random_one() -> None:
    hot, random = (
        drafting(run(dataclasses.replace(ELASTIC, draft=draft), tokens=150)) for draft in ("elastic", "random")
    )
    assert hot[0].expert_hits < 0.8 * hot[3].expert_hits
    assert alpha(hot[2:]) > alpha(random[2:])


def test_a_larger_hb_has_more_drafts_accepted_and_serves_more_of_verification() -> None:
    small, large = (
        drafting(run(dataclasses.replace(ELASTIC, hardware=f"elmoe3d-{gb}gb"), tokens=120)) for gb in (4, 8)
    )
    assert alpha(large) > alpha(small)
    shares = [sum(r.expert_hits for r in each) / sum(r.expert_lookups for r in each) for each in (small, large)]
    assert shares[1] > 1.5 * shares[0]


def test_the_mode_follows_the_law_and_a_fault_is_survived() -> None:
    tau = dataclasses.replace(ELASTIC, mode="tau", tau=4, hardware="elmoe3d-8gb")
    assert not drafting(run(tau, 2)) and drafting(run(tau, 6))
    broken = dataclasses.replace(tau, faults=("slow: left=0.3, device=0, at=0.5",))
    ends = [max(r.start_s + r.latency_s for r in run(each, 6)) for each in (tau, broken)]
    assert ends[1] > 1.2 * ends[0]


@pytest.mark.parametrize("draft", ["elastic", "random", "quant"])
def test_drafts_are_executed_on_the_token_model_with_what_hb_holds(draft: str) -> None:
    scenario = dataclasses.replace(ELASTIC, draft=draft, acceptance="executed", hardware="elmoe3d-8gb")
    records = drafting(run(scenario, 2, 24))
    assert records == drafting(run(scenario, 2, 24)) and 0 < alpha(records) < 1
    assert not any(record.unrouted for record in records)
    device = load_device("elmoe3d", "elmoe3d-8gb", scenario.model, draft)
    room = device.hb.capacity_bytes / (device.size.expert_bytes * 4.5 / 8.5)
    # Whole experts, but for what sums over passes round.
    assert all(abs(record.expert_hits - round(record.expert_hits)) < 1e-6 for record in records)
    assert max(record.expert_hits for record in records) <= room


@pytest.mark.slow
def test_executed_a_hot_pool_has_more_accepted_than_a_random_one_and_a_large_one_more_than_a_small_one() -> None:
    def accepted(draft: str, gb: int) -> float:
        scenario = dataclasses.replace(ELASTIC, draft=draft, acceptance="executed", hardware=f"elmoe3d-{gb}gb")
        return alpha(drafting(run(scenario, 3, 40)))

    hot, random, small = accepted("elastic", 8), accepted("random", 8), accepted("elastic", 4)
    assert hot > 1.15 * random and hot > 1.15 * small


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"draft": "eagle"}, "`draft` is eagle: the token model can't draft so; .* as elastic, random, quant do"),
        ({"fleet": ("elmoe3d-4gb+slm", "elmoe3d-4gb")}, "`draft` is slm: the token model can't"),
        ({"residency": "analytic"}, "which only `residency` 'trace' knows"),
        ({"draft": "none"}, r"nothing drafts \(`draft`\): only drafts are accepted\.$"),
        ({"draft": "auto"}, "'auto' is none; name one, as elastic"),
    ],
)
def test_what_cannot_be_executed_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        dataclasses.replace(ELASTIC, acceptance="executed", **options)


def test_the_same_scenario_gives_the_same_steps() -> None:
    assert run(ELASTIC) == run(ELASTIC)
