"""Is what we train the model that transformers and vLLM load?"""

import pytest
import torch

from serving.lab.training.export import from_hf, load_model, save_model, to_hf
from serving.lab.training.model import NarrowProduct, Norm, Rotation, TrainedModel, initialise
from serving.lab.training.shape import ModelShape

SMALL = ModelShape(
    vocabulary=300, layers=2, hidden=32, heads=4, kv_heads=2, head_size=16, experts=8, active=3, expert_hidden=8
)


@pytest.fixture(params=[ModelShape(), SMALL], ids=["bundled", "small"])
def model(request):
    model = initialise(TrainedModel(request.param), 3)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            weights.mul_(1 + torch.rand(weights.shape)) if name.endswith("scale") else weights.mul_(2)
    return model


def logits(model, ids, lengths):
    with torch.no_grad():
        return model(ids, lengths)[0] @ model.embedding.T


def test_its_logits_are_those_of_transformers_and_segments_do_not_see_each_other(model):
    ids = torch.randint(model.shape.vocabulary, (90,))
    hf = to_hf(model)
    with torch.no_grad():
        expected = torch.cat([hf(ids[None, :50]).logits[0], hf(ids[None, 50:]).logits[0]])
    torch.testing.assert_close(logits(model, ids, [50, 40]), expected, atol=1e-4, rtol=0)


def test_what_comes_back_is_the_same_model_in_bf16(model, tmp_path):
    save_model(model, tmp_path)
    back = from_hf(load_model(tmp_path), model.shape)
    for (name, ours), (_, theirs) in zip(model.state_dict().items(), back.state_dict().items(), strict=True):
        assert torch.equal(ours.bfloat16().float(), theirs), name


def test_a_norm_and_its_gradients_are_torchs():
    torch.manual_seed(0)
    norm, x, probe = Norm(16, 1e-6), torch.randn(3, 5, 16, requires_grad=True), torch.randn(3, 5, 16)
    norm.scale.data.uniform_(0.5, 2.0)
    ours, theirs = norm(x), torch.nn.functional.rms_norm(x, (16,), norm.scale, 1e-6)
    torch.testing.assert_close(ours, theirs)
    pairs = (torch.autograd.grad((out * probe).sum(), (x, norm.scale)) for out in (ours, theirs))
    for one, other in zip(*pairs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_a_seed_gives_the_same_weights():
    first, again, other = (initialise(TrainedModel(SMALL), seed) for seed in (1, 1, 2))
    assert torch.equal(first.embedding, again.embedding)
    assert not torch.equal(first.embedding, other.embedding)


def test_gradients_are_those_of_the_written_out_sum():
    torch.manual_seed(0)
    experts = TrainedModel(SMALL).layers[0].experts
    for weights in experts.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    x = torch.randn(20, SMALL.hidden, requires_grad=True)
    sources = [x, *experts.parameters()]
    probe = torch.randn(20, SMALL.hidden)
    ours = torch.autograd.grad((experts(x)[0] * probe).sum(), sources)
    routing = experts.route(x)
    made = torch.stack(
        [
            (torch.nn.functional.silu(x @ gate) * (x @ up)) @ down
            for gate, up, down in zip(experts.gate, experts.up, experts.down, strict=True)
        ],
        1,
    )
    chosen = made.gather(1, routing.chosen[..., None].expand(-1, -1, SMALL.hidden))
    plain = torch.autograd.grad(((chosen * routing.weights[..., None]).sum(1) * probe).sum(), sources)
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_products_and_rotations_have_the_gradients_of_finite_differences():
    torch.manual_seed(0)
    rows, matrix = (torch.randn(5, size, dtype=torch.float64, requires_grad=True) for size in (6, 6))
    assert torch.autograd.gradcheck(lambda *each: NarrowProduct.apply(*each, torch.float64), (rows, matrix))
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    angles = torch.randn(5, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: Rotation.apply(x, angles.cos(), angles.sin()), (x,))


def test_a_narrow_product_is_as_exact_as_its_type():
    torch.manual_seed(0)
    rows, matrix = torch.randn(50, 192), torch.randn(64, 192)
    exact = rows @ matrix.T
    assert torch.equal(NarrowProduct.apply(rows, matrix, torch.float32), exact)
    off = NarrowProduct.apply(rows, matrix, torch.bfloat16) - exact
    assert 0 < float(off.abs().mean() / exact.abs().mean()) < 0.01
