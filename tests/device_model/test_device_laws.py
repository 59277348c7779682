"""Does a step's cost obey the laws of physics and arithmetic, whatever the batch?"""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from device_model.load import load_device, load_setup
from device_model.step import DeviceModel, Energy, StepPlan
from device_model.systems import elmoe3d, xpu
from device_model.work import StepWork
from tests.device_model.never_faster import NEARLY, check_never_faster
from tests.examples import examples

DEVICES = [
    load_device(system, hardware, "qwen3-30b-a3b")
    for system in ("elmoe3d", "xpu")
    for hardware in ("elmoe3d-4gb", "elmoe3d-8gb")
]
devices = st.sampled_from(DEVICES)
contexts = st.integers(0, 8000)
decoding = st.tuples(st.just(1), contexts)
sequences = st.one_of(decoding, st.tuples(st.integers(1, 2048), contexts))
batches = st.lists(sequences, min_size=1, max_size=12)


def cost(device, batch, **kwargs):
    return next(iter(device.probe(StepPlan.of(*batch), **kwargs)))


@example(DEVICES[0], [(1, 3031), (1, 8000), (1, 8000), (1, 8000)], 0, 4)
@given(devices, batches, st.integers(0, 11), st.integers(1, 4000))
def test_a_longer_context_is_never_faster_but_for_what_leaves_hb(device, batch, which, more):
    new, context = batch[which % len(batch)]
    longer = [*batch]
    longer[which % len(batch)] = (new, context + more)
    check_never_faster(device, batch, longer)


@given(devices, batches, sequences)
def test_a_larger_batch_is_never_faster_but_for_what_leaves_hb(device, batch, another):
    check_never_faster(device, batch, [*batch, another])


@given(devices, batches, st.floats(1e9, 1e12), st.floats(1.0, 100.0))
def test_more_external_bandwidth_is_never_slower(device, batch, granted, times):
    slow = cost(device, batch, ext_bytes_per_s=granted)
    fast = cost(device, batch, ext_bytes_per_s=granted * times)
    assert fast.latency_s <= slow.latency_s / NEARLY
    assert fast.traffic == slow.traffic


@given(batches)
def test_more_hybrid_bonded_memory_is_never_slower(batch):
    large, small, none = (cost(d, batch).latency_s for d in (DEVICES[1], DEVICES[0], DEVICES[2]))
    assert large <= small / NEARLY and small <= none / NEARLY


@examples(50)
@given(devices, batches, st.integers(1, 12))
def test_a_probe_of_k_steps_is_k_probes_of_grown_plans(device, batch, steps):
    plan = StepPlan.of(*batch)
    together = device.probe(plan, steps)
    assert len(together) == steps
    grown = (StepPlan(plan.new_tokens, plan.context + i * plan.new_tokens) for i in range(steps))
    for one, single in zip(together, (device.probe(p) for p in grown), strict=True):
        np.testing.assert_allclose(flat(one), flat(next(iter(single))), rtol=1e-9)


def flat(step):
    return [step.latency_s, *step.energy, *step.traffic, step.expert_lookups, step.expert_hits]


@given(devices, batches)
def test_joules_follow_from_traffic_time_and_computation(device, batch):
    step = cost(device, batch)
    assert step.energy.hb_j == pytest.approx(step.traffic.hb_bytes * 8 * 0.43e-12)
    assert step.energy.ext_j == pytest.approx(step.traffic.ext_bytes * 8 * 3.88e-12)
    assert step.energy.comm_j == pytest.approx(step.traffic.ext_bytes * 8 * 0.4e-12)
    assert step.energy.static_j / step.latency_s == pytest.approx(
        cost(device, [(1, 0)]).energy.static_j / cost(device, [(1, 0)]).latency_s
    )
    assert step.energy_j == pytest.approx(sum(step.energy))
    assert all(joules >= 0 for joules in step.energy)


@given(devices, batches)
def test_a_step_takes_at_least_each_resource_s_time_and_at_most_their_sum(device, batch):
    step = cost(device, batch)
    compute_s = step.energy.compute_j / 1e-13 / (131e12 if device in DEVICES[::2] else 262e12)
    times = [compute_s, step.traffic.hb_bytes / device.hb.bytes_per_s, step.traffic.ext_bytes / device.ext_bytes_per_s]
    assert max(times) * NEARLY <= step.latency_s <= sum(times) / NEARLY


@given(st.sampled_from(DEVICES[2:]), st.integers(0, 4000), st.lists(st.integers(1, 1000), min_size=2, max_size=5))
def test_chunks_compute_what_the_whole_prefill_does_and_take_no_less_time(device, context, chunks):
    """On the xPU: with an expert cache, a later chunk may find what an earlier one has left there."""
    whole = cost(device, [(sum(chunks), context)])
    starts = [context + sum(chunks[:i]) for i in range(len(chunks))]
    parts = [cost(device, [pair]) for pair in zip(chunks, starts, strict=True)]
    logits_j = (len(chunks) - 1) * device.size.head_macs_per_sequence * 1e-13
    assert sum(p.energy.compute_j for p in parts) == pytest.approx(whole.energy.compute_j + logits_j)
    assert whole.latency_s <= sum(p.latency_s for p in parts) / NEARLY
    assert sum(p.traffic.ext_bytes for p in parts) >= whole.traffic.ext_bytes * NEARLY


@given(batches, st.integers(1, 5))
def test_pairs_and_tokens_are_what_counting_them_gives(batch, steps):
    work = StepWork.of(StepPlan.of(*batch), steps)
    pairs, kv_tokens = np.atleast_1d(work.pairs), np.atleast_1d(work.kv_tokens)
    for i in range(steps):
        grown = [(new, context + i * new) for new, context in batch]
        assert pairs[i] == sum(context * new + new * (new + 1) / 2 for new, context in grown)
        assert kv_tokens[i] == sum(context + new for new, context in grown)


@given(devices, batches)
def test_expert_reads_are_at_least_top_k_a_layer_and_hits_are_among_them(device, batch):
    step = cost(device, batch)
    assert 48 * 8 * NEARLY <= step.expert_lookups <= 48 * 128
    assert 0 <= step.expert_hits <= step.expert_lookups


@given(batches)
def test_without_its_hb_elmoe_3d_is_the_xpu(batch):
    setup = load_setup("elmoe3d-4gb", "qwen3-30b-a3b")
    bare = elmoe3d.Device(dataclasses.replace(setup, hardware=setup.hardware.without_hb()))
    np.testing.assert_allclose(flat(cost(bare, batch)), flat(cost(xpu.Device(setup), batch)))


def test_all_components_grow_step_by_step_with_the_context():
    costs = DEVICES[0].probe(StepPlan.of(*[(1, 1000)] * 16), 64)
    assert costs.table.shape == (64, 17) and costs.energy_j.shape == (64, len(Energy._fields))
    assert all(a < b for a, b in pairwise(costs.latency_s))


def test_a_kv_cache_larger_than_the_hb_leaves_no_expert_cached_and_is_read_from_both_tiers():
    step = cost(DEVICES[0], [(1, 1023)] * 64)  # 3.2 GB of KV, 2.7 GB of room
    assert step.expert_hits == 0
    spilt = 64 * 1024 * 49_152 - (2**32 - DEVICES[0].size.static_bytes)
    missed = step.expert_lookups * DEVICES[0].size.expert_bytes
    assert step.traffic.ext_bytes == pytest.approx(spilt * (1 + 1 / 1024) + missed)


def test_the_grant_of_all_bandwidth_is_the_default():
    device: DeviceModel = DEVICES[0]
    assert cost(device, [(1, 9)]) == cost(device, [(1, 9)], ext_bytes_per_s=device.ext_bytes_per_s)


def test_a_probe_changes_nothing():
    plan = StepPlan.of((1, 1000), (5, 20))
    before = dataclasses.asdict(plan)
    first, second = DEVICES[0].probe(plan, 3), DEVICES[0].probe(plan, 3)
    assert list(first) == list(second)
    assert all(np.all(before[key] == value) for key, value in dataclasses.asdict(plan).items())


@pytest.mark.parametrize(
    ("batch", "kwargs", "said"),
    [
        ([], {}, "The plan is empty; a probe needs at least one sequence"),
        ([(1, 5)], {"steps": 0}, "steps is 0; a probe needs at least 1"),
        ([(1, 5)], {"ext_bytes_per_s": 0.0}, "ext_bytes_per_s is 0.0; a probe needs a bandwidth above 0"),
        ([(1, 5)], {"ext_bytes_per_s": float("nan")}, "ext_bytes_per_s is nan"),
        ([(0, 5)], {}, "less than 1 new token"),
        ([(1, -1)], {}, "a context below 0"),
    ],
)
def test_what_means_nothing_is_refused(batch, kwargs, said):
    with pytest.raises(ValueError, match=said):
        DEVICES[0].probe(StepPlan.of(*batch), **kwargs)
