"""Are a draft's weights what its paper makes of the target's, and its bytes counted right?"""

import numpy as np
import pytest
import torch

from serving.drafting import bits
from serving.lab.self_speculation import floats
from serving.lab.self_speculation.draft import Bits, DraftModel
from serving.lab.self_speculation.drafts.cassandra import Cassandra, Cut
from serving.lab.self_speculation.drafts.elastic import TREATMENTS, Elastic
from serving.lab.self_speculation.drafts.first_layers import first_layers
from serving.lab.self_speculation.pools import PoolPlan
from serving.lab.self_speculation.wanda import calibrate, kept
from serving.lab.self_speculation.weights import LINEARS
from tests.serving.lab.self_speculation.models import prompts, random_weights


@pytest.fixture(scope="module")
def source():
    return random_weights(11)


@pytest.fixture(scope="module")
def elastic(source):
    return Elastic(source)


@pytest.fixture(scope="module")
def cassandra(source):
    return Cassandra(source, calibrate(source, prompts(200)))


def test_the_target_is_int8_and_keeps_embedding_norms_and_router(source, elastic):
    target = elastic.target
    int8 = bits.quantize(source.layers[1].down.numpy())
    assert np.array_equal(target.layers[1].down.numpy(), bits.dequantize(int8.values, int8.scales))
    assert not torch.equal(target.head, source.head)
    for name in ("router", "q_norm", "input_norm"):
        assert torch.equal(getattr(target.layers[0], name), getattr(source.layers[0], name))
    assert torch.equal(target.embedding, source.embedding)


def test_slices_come_nearer_with_each_bit_and_augmentation_is_near_dedicated(elastic):
    def error(name, width):
        draft = elastic.draft(name, width).weights
        return float((draft.layers[0].gate_up - elastic.target.layers[0].gate_up).square().mean())

    for name in TREATMENTS:
        errors = [error(name, width) for width in range(3, 9)]
        assert errors == sorted(errors, reverse=True)
    assert error("truncated", 4) > 2 * error("rounded", 4) > 2 * error("augmented", 4) * 0.9
    assert error("augmented", 4) < 1.5 * error("dedicated", 4)


def test_bytes_are_those_of_slices_and_pool(elastic):
    draft = elastic.draft("augmented", 4).throttled(PoolPlan(0.25))
    dense = 3 * (2 * 96 + 2 * 32) * 64 + 96 * 64
    expert = 3 * 64 * 32
    assert draft.static_bytes == dense * 4.5 / 8
    assert draft.expert_bytes == expert * 4.5 / 8
    assert draft.held_bytes == draft.static_bytes + 0.25 * 16 * 3 * expert * 4.5 / 8
    early = first_layers(elastic.target, 1)
    assert early.held_bytes == (((2 * 96 + 2 * 32) + 96) * 64 + 16 * expert) * 2
    with pytest.raises(ValueError, match="1 to 3"):
        first_layers(elastic.target, 4)


def test_wanda_drops_the_share_of_each_output_that_matters_least(cassandra, source):
    importance = torch.tensor([[1.0, 9.0, 2.0, 8.0, 3.0]])
    assert kept(importance, torch.ones(5), 0.4).tolist() == [[False, True, False, True, True]]
    assert kept(importance, torch.tensor([100.0, 0, 1, 0, 1]), 0.4).tolist() == [[True, False, True, False, True]]
    draft = cassandra.first(Cut()).weights
    for name in LINEARS:
        share = (getattr(draft.layers[1], name) == 0).double().mean(-1)
        assert ((share > 0.37) & (share < 0.43)).all()
    assert torch.equal(draft.head, cassandra.target.head)


def test_a_cut_mantissa_keeps_sign_exponent_and_upper_bits():
    x = floats.bf16(torch.tensor([1.9921875, -1.9921875, 3.0, 0.0, 1e-30], dtype=torch.float64))
    assert floats.cut_mantissa(x, 4)[:4].tolist() == [1.875, -1.875, 3.0, 0.0]
    assert torch.equal(floats.cut_mantissa(x, 0), x)
    assert floats.cut_mantissa(x, 7)[0] == 1.0


def test_unary_codes_take_what_their_order_says():
    exponents = floats.exponent_bits(torch.tensor([1.0, 1.5, 1.25, 1.0, 2.0, 2.5, 4.0, 8.0]))
    assert exponents.distinct == 4
    assert exponents.unary == (4 * 1 + 2 * 2 + 3 + 4) / 8
    assert exponents.entropy == pytest.approx(0.5 * 1 + 0.25 * 2 + 2 * 0.125 * 3)
    normal = floats.exponent_bits(floats.bf16(torch.randn(100_000, generator=torch.Generator().manual_seed(0)) * 0.02))
    assert 2.4 < normal.entropy < normal.unary < 3  # Cassandra, IV-B: 2.6 and 2.85


def test_shared_exponents_leave_the_largest_as_they_are():
    x = floats.bf16(torch.randn(8, 64, generator=torch.Generator().manual_seed(1)))
    shared = floats.shared_exponents(x)
    back = shared.cut(0)
    exponents = torch.frexp(x).exponent.unflatten(-1, (-1, 32))
    highest = (exponents == exponents.amax(-1, keepdim=True)).flatten(-2)
    assert torch.equal(back[highest], x[highest])
    assert ((back - x).abs() <= shared.steps / 2).all()
    assert (shared.cut(4).abs() <= back.abs()).all()
    assert ((shared.cut(4) - back).abs() < 16 * shared.steps).all()
    assert torch.equal(floats.shared_exponents(torch.zeros(32)).cut(2), torch.zeros(32))


def test_the_second_target_has_pruned_weights_as_they_were_and_its_draft_lies_within(cassandra):
    target, draft = cassandra.shared_target(0.4), cassandra.second(Cut()).weights
    for name in LINEARS:
        plain, ours, small = (getattr(model.layers[0], name) for model in (cassandra.target, target, draft))
        dropped = small == 0
        assert dropped.any() and (small.abs() <= ours.abs()).all()
        assert (ours - plain).abs().max() < 0.01 * plain.abs().max()
    assert cassandra.second(Cut()).bits.layers == pytest.approx(1 + 0.6 * (1 + 0.25 + 4))
    unary = cassandra.exponents.unary
    assert cassandra.first(Cut()).bits.layers == pytest.approx(1 + 0.6 * (1 + unary + 3))


def test_a_pruned_cache_keeps_the_largest_of_each_token():
    x = torch.tensor([[0.1, -5.0, 2.0, 0.2, 3.0]])
    assert floats.prune_tokens(x, 0.4).tolist() == [[0.0, -5.0, 2.0, 0.0, 3.0]]
    assert cut_view()(torch.tensor([[1.99, -0.01, 0.02, 3.0, 1.0]])).tolist() == [[1.875, 0.0, 0.0, 3.0, 1.0]]


def cut_view():
    weights = random_weights(12)
    return Cassandra(weights, calibrate(weights, prompts(200))).first(Cut(kv_pruned=0.4)).view


def test_an_uncut_draft_of_cassandra_is_its_target(cassandra):
    draft = cassandra.first(Cut(0.0, 0, 0.0, 0))
    assert draft.view is None
    for name in LINEARS:
        assert torch.equal(getattr(draft.weights.layers[2], name), getattr(cassandra.target.layers[2], name))
    assert DraftModel(cassandra.target, Bits(16, 16)).held_bytes > draft.held_bytes
