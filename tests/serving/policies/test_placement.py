"""Do experts follow the topics of the batch, where that pays, and is it paid for?"""

import numpy as np
import pytest

from device_model.experts.topic_usage import read_usage
from device_model.load import load_device
from device_model.specs.spec import DeviceError
from serving.device.device_spec import USAGE, DeviceSpec
from serving.device.pricing import ModelPricer
from serving.policies.modes import Modes
from serving.policies.placement import HOT, TOPIC, ExpertPlacement
from serving.policies.step_options import PLAIN, StepOptions
from serving.scenario.fleet import Member
from serving.scenario.scenario import BUNDLED_MODEL, Scenario
from serving.types import Batch

TABLE = read_usage(BUNDLED_MODEL / USAGE)
DEVICE = load_device("elmoe3d", "elmoe3d-8gb", "qwen3-30b-a3b")
DEVICE.know_topics(TABLE)
WAYS = StepOptions(DEVICE)
FULL_SPEED = DEVICE.ext_bytes_per_s


def batch(*topics: str, remaining: int = 200, prompt: int = 1) -> Batch:
    n = len(topics)
    new = [prompt, *[1] * (n - 1)]
    return Batch(
        [str(i) for i in range(n)], new, [1000] * n, [True] * n, 0.0, remaining=[remaining] * n, topics=list(topics)
    )


def test_experts_follow_a_batch_of_another_topic_if_it_has_enough_to_say() -> None:
    placing = ExpertPlacement(WAYS, TABLE, TOPIC)
    first = placing.place(batch("legal", "legal"), PLAIN, FULL_SPEED)
    assert first.swap is not None and first.plan.placed is not None
    assert placing.place(batch("legal", "legal"), PLAIN, FULL_SPEED).swap is None
    short = placing.place(batch("math", "math", remaining=2), PLAIN, FULL_SPEED)
    assert short.swap is None and short.plan.placed == first.plan.placed
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


def test_where_no_table_is_or_no_experts_can_be_placed_it_is_said() -> None:
    untabled = Scenario(placement="topic", token_model="foreserve-tiny")
    with pytest.raises(DeviceError, match=USAGE):
        DeviceSpec.of(untabled, untabled.members[0]).load()
    with pytest.raises(DeviceError, match="HB"):
        DeviceSpec.of(Scenario(placement="topic"), Member("pim", "elmoe3d-8gb", "")).load()


def test_on_stratum_rows_trade_places_and_the_batch_pays_for_it() -> None:
    device = load_device("auto", "stratum-s", "olmoe-1b-7b")
    device.know_topics(TABLE)
    placing = ExpertPlacement(StepOptions(device), TABLE, TOPIC)
    full = device.ext_bytes_per_s
    first = placing.place(batch("legal", "legal"), PLAIN, full)
    second = placing.place(batch("math", "math", "math", remaining=2000), PLAIN, full)
    for placed in (first, second):
        assert placed.swap is not None and 1e-5 < placed.swap.latency_s < 1e-3
        assert placed.swap.traffic.ext_bytes == 0 and placed.swap.energy.hb_j > 0
    assert placing.place(batch("math", "math"), PLAIN, full).swap is None
