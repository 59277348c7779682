"""Do experts follow the topics of the batch, where that pays, and is it paid for?"""

import dataclasses

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.experts.topic_usage import read_usage
from device_model.hb_xpu.tiered import TieredDevice
from device_model.load import load_device
from device_model.specs.spec import DeviceError
from device_model.step import StepPlan
from serving.device.device_spec import USAGE, DeviceSpec
from serving.device.pricing import ModelPricer
from serving.policies.modes import Modes
from serving.policies.placement import ALWAYS, HOT, OWN_SWAP, PAYS, TOPIC, ExpertPlacement
from serving.policies.step_option import PLAIN
from serving.policies.step_options import StepOptions
from serving.scenario.fleet import Member
from serving.scenario.scenario import BUNDLED_MODEL, Scenario
from serving.simulation.simulator import Simulator
from serving.types import Batch, Outlook, Request
from tests.examples import examples

TABLE = read_usage(BUNDLED_MODEL / USAGE)
DEVICE = load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b")
DEVICE.know_topics(TABLE)
WAYS = StepOptions(DEVICE)
DRAFTING = StepOptions(load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b", "elastic"))
DRAFTING.device.know_topics(TABLE)
FULL_SPEED = DEVICE.ext_bytes_per_s
STRATUM = load_device("auto", "stratum-s", "olmoe-1b-7b")
STRATUM.know_topics(TABLE)
topics_of_batches = st.lists(st.lists(st.sampled_from(["legal", "math", "cs", ""]), min_size=1, max_size=6), max_size=8)


def batch(*topics: str, remaining: int = 200, prompt: int = 1) -> Batch:
    n = len(topics)
    new = [prompt, *[1] * (n - 1)]
    return Batch(
        [str(i) for i in range(n)],
        new,
        [1000] * n,
        [True] * n,
        0.0,
        released=[0] * n,
        remaining=[remaining] * n,
        topics=list(topics),
    )


def test_experts_follow_a_batch_of_another_topic_if_it_has_enough_to_say() -> None:
    placing = ExpertPlacement(WAYS, TABLE, TOPIC)
    first = placing.place(batch("legal", "legal"), PLAIN, FULL_SPEED)
    assert first.swap is not None and first.plan.placed is not None
    assert placing.place(batch("legal", "legal"), PLAIN, FULL_SPEED).swap is None
    short = placing.place(batch("math", "math", remaining=2), PLAIN, FULL_SPEED)
    assert short.swap is None and short.plan.placed == first.plan.placed
    may_be_long = msgspec.structs.replace(
        batch("math", "math", remaining=2000), ids=["2", "3"], outlook=Outlook(answered=0.001)
    )
    assert placing.place(may_be_long, PLAIN, FULL_SPEED).swap is None
    long = placing.place(batch("math", "math", "math"), PLAIN, FULL_SPEED)
    assert long.swap is not None and long.plan.placed == TABLE.mix(np.array([TABLE.index("math")]))
    assert 0 < long.swap.latency_s < first.swap.latency_s  # some of it was there


def test_a_prompt_beside_them_does_not_hide_what_those_who_decode_gain() -> None:
    placing = ExpertPlacement(WAYS, TABLE, TOPIC)
    placing.place(batch("legal"), PLAIN, FULL_SPEED)
    assert placing.place(batch("cs", "cs", "cs", "cs", prompt=500), PLAIN, FULL_SPEED).swap is not None


def test_what_all_topics_use_most_is_placed_once() -> None:
    placing = ExpertPlacement(WAYS, TABLE, HOT)
    first = placing.place(batch("legal"), PLAIN, FULL_SPEED)
    assert first.swap is not None
    assert len(set(first.plan.placed or ())) == 1
    assert placing.place(batch("math"), PLAIN, FULL_SPEED).swap is None


def test_a_swap_is_paid_for_in_the_first_step() -> None:
    pricer = ModelPricer(WAYS, Modes.of("fixed-ar", ()), ExpertPlacement(WAYS, TABLE, TOPIC))
    swapping, again = (next(pricer.price(batch("legal"), FULL_SPEED)) for _ in range(2))
    assert (swapping.swaps, again.swaps) == (1, 0)
    moved = swapping.cost.traffic.ext_bytes - again.cost.traffic.ext_bytes
    assert moved > 1e9
    assert swapping.cost.latency_s - again.cost.latency_s == pytest.approx(moved / FULL_SPEED)
    assert swapping.cost.energy_j > again.cost.energy_j


@pytest.mark.parametrize("depth", [PLAIN, 4, 8])
def test_before_steps_that_draft_the_slices_of_their_draft_are_brought_in(depth: int) -> None:
    placing = ExpertPlacement(DRAFTING, TABLE, TOPIC, always=True)
    placing.place(batch("legal", "legal"), depth, FULL_SPEED)
    decoding = msgspec.structs.replace(batch("math", "math"), released=[1, 7])
    placed = placing.place(decoding, depth, FULL_SPEED)
    draft = DRAFTING.device.draft
    assert placed.swap is not None and draft is not None and isinstance(DRAFTING.device, TieredDevice)
    plan = dataclasses.replace(placed.plan, draft=draft.shape_at(depth) if depth else None)
    swap = DRAFTING.device.swap(plan, TABLE.mix(np.array([TABLE.index("legal")])))
    assert placed.swap.traffic.ext_bytes == pytest.approx(swap.bytes)
    assert swap.bytes / swap.taken_in == pytest.approx(DRAFTING.device.size.expert_bytes * (4.5 / 8.5 if depth else 1))


def test_where_no_table_is_or_no_experts_can_be_placed_it_is_said() -> None:
    untabled = Scenario(placement="topic", token_model="foreserve-tiny")
    with pytest.raises(DeviceError, match=USAGE):
        DeviceSpec.of(untabled, untabled.members[0]).load()
    with pytest.raises(DeviceError, match="HB"):
        DeviceSpec.of(Scenario(placement="topic"), Member("pim", "elmoe3d-8gb", "")).load()


def test_on_stratum_rows_trade_places_and_the_batch_pays_for_it() -> None:
    placing = ExpertPlacement(StepOptions(STRATUM), TABLE, TOPIC)
    full = STRATUM.ext_bytes_per_s
    first = placing.place(batch("legal", "legal"), PLAIN, full)
    second = placing.place(batch("math", "math", "math", remaining=2000), PLAIN, full)
    for placed in (first, second):
        assert placed.swap is not None and 1e-5 < placed.swap.latency_s < 1e-3
        assert placed.swap.traffic.ext_bytes == 0 and placed.swap.energy.hb_j > 0
    assert placing.place(batch("math", "math"), PLAIN, full).swap is None


@examples(20)
@given(batches=topics_of_batches, remaining=st.sampled_from([1, 30, 2000]), stratum=st.booleans())
def test_always_is_at_each_other_mix_and_costs_what_the_device_model_says(
    batches: list[list[str]], remaining: int, stratum: bool
) -> None:
    model = StepOptions(STRATUM) if stratum else WAYS
    placing, before = ExpertPlacement(model, TABLE, TOPIC, always=True), None
    for topics in batches:
        placed = placing.place(batch(*topics, remaining=remaining), PLAIN, FULL_SPEED)
        assert placed.plan.placed == TABLE.mix(np.array([TABLE.index(topic) for topic in topics]))
        if placed.plan.placed == before:
            assert placed.swap is None
        else:
            cost = model.swap(placed.plan, before, PLAIN, FULL_SPEED)
            assert placed.swap == (cost if cost.latency_s else None)
        before = placed.plan.placed


@examples(20)
@given(batches=topics_of_batches, remaining=st.sampled_from([1, 30, 2000]))
def test_where_it_must_pay_the_swap_and_the_rest_take_no_longer_than_as_it_was(
    batches: list[list[str]], remaining: int
) -> None:
    placing, before = ExpertPlacement(WAYS, TABLE, TOPIC), None
    for topics in batches:
        coming = batch(*topics, remaining=remaining)
        placed = placing.place(coming, PLAIN, FULL_SPEED)
        if placed.swap is None:
            assert before is None or placed.plan.placed == before
        elif before is not None:
            as_it_was = StepPlan(np.ones_like(coming.plan.context), coming.plan.context + 1, topics=placed.plan.topics)
            kept_s, new_s = (
                float(DEVICE.probe(dataclasses.replace(as_it_was, placed=mix), 1, FULL_SPEED).latency_s[0]) * remaining
                for mix in (before, placed.plan.placed)
            )
            assert placed.swap.latency_s + new_s < kept_s
        before = placed.plan.placed


def drifting(swap: str, hardware: str, model: str) -> Scenario:
    return Scenario(
        hardware=hardware, model=model, draft="none", placement="topic", swap=swap, max_num_seqs=4, max_model_len=2048
    )


def test_topics_with_the_published_share_of_hot_choices_find_more_experts_and_end_sooner() -> None:
    """One request at a time, of one topic after the other: what each reads is where its own topic wants it."""
    requests = [Request(str(i), 0.5 * i, 60, 40, seed=i, topic=("legal", "math")[i % 2]) for i in range(8)]
    found = {}
    for placement in (TOPIC, HOT):
        scenario = dataclasses.replace(drifting(OWN_SWAP, "stratum-s", "olmoe-1b-7b"), usage="published")
        scenario = dataclasses.replace(scenario, placement=placement, swap=OWN_SWAP)
        records = Simulator(scenario).serve(requests)[1]
        decoded = [record for record in records if record.phase == "decode"]
        hits = sum(record.expert_hits for record in decoded) / sum(record.expert_lookups for record in decoded)
        found[placement] = hits, sum(record.latency_s for record in records), sum(record.swaps for record in records)
    assert found[TOPIC][0] == pytest.approx(0.485) and found[HOT][0] < 0.35
    assert found[TOPIC][1] < found[HOT][1]
    assert (found[TOPIC][2], found[HOT][2]) == (8, 1)


@pytest.mark.parametrize(
    ("hardware", "model", "own"), [("stratum-s", "olmoe-1b-7b", ALWAYS), ("elmoe3d-8gb", "qwen3-30b-a3b", PAYS)]
)
def test_a_system_swaps_as_its_paper_has_it_unless_told_otherwise(hardware: str, model: str, own: str) -> None:
    requests = [
        Request(str(i), 0.001 * i, 60, 12 + 5 * (i % 3), seed=i, topic=("legal", "math", "cs")[i % 3])
        for i in range(24)
    ]
    runs = {swap: Simulator(drifting(swap, hardware, model)).serve(requests)[1] for swap in (OWN_SWAP, ALWAYS, PAYS)}
    swaps = {swap: sum(record.swaps for record in records) for swap, records in runs.items()}
    assert runs[OWN_SWAP] == runs[own]
    assert swaps[ALWAYS] > swaps[PAYS] > 0
    for record in (record for records in runs.values() for record in records):
        assert record.swap_s == record.moved_s and (record.swap_s > 0) == (record.swap_j > 0) == bool(record.swaps)
        assert record.swap_s < record.latency_s and record.swap_j < sum(record.energy_j)
