"""Do the losses ask for what they say?"""

import pytest
import torch

from serving.lab.training.batches import ASKED
from serving.lab.training.experts import TrainedRouting
from serving.lab.training.losses import (
    DISTINCT,
    IDLE,
    ROWS,
    batch_balance,
    cross_entropy,
    idleness,
    router_loss,
    router_z,
    sameness,
    thinned,
)
from serving.lab.training.losses import used as used_by

EXPERTS, ACTIVE = 16, 4


def routing(scores):
    shares = scores.softmax(-1)
    best, chosen = shares.topk(ACTIVE, -1)
    return TrainedRouting(scores, shares, chosen, best / best.sum(-1, keepdim=True))


def used(made):
    """Use by one topic, which has all tokens."""
    return used_by(made, torch.zeros(len(made.scores), dtype=torch.long), 1)[0]


def even(tokens):
    """Each token strongly to four experts, all used alike."""
    first = torch.arange(tokens)[:, None] * ACTIVE
    return routing(torch.zeros(tokens, EXPERTS).scatter_(1, (first + torch.arange(ACTIVE)) % EXPERTS, 30.0))


def test_even_use_costs_one():
    made = even(EXPERTS * 3)
    assert float(batch_balance(made, used(made))) == pytest.approx(1.0)


def test_collapse_on_the_first_few_costs_as_many_times_more():
    scores = torch.zeros(40, EXPERTS)
    scores[:, :ACTIVE] = 30.0
    made = routing(scores)
    assert float(batch_balance(made, used(made))) == pytest.approx(EXPERTS / ACTIVE)


def test_specialised_segments_are_balanced_if_their_batch_is():
    scores = torch.zeros(40, EXPERTS)
    for segment in range(4):
        scores[10 * segment : 10 * (segment + 1), ACTIVE * segment : ACTIVE * (segment + 1)] = 30.0
    made = routing(scores)
    assert float(batch_balance(made, used(made))) == pytest.approx(1.0)


def test_an_expert_that_is_hardly_used_is_asked_for_and_no_other():
    torch.manual_seed(0)
    scores = torch.randn(40, EXPERTS, requires_grad=True)
    use = torch.full((EXPERTS,), 1 / EXPERTS)
    assert float(idleness(routing(scores), use).detach()) == 0
    use[3] = 0.1 * IDLE / EXPERTS
    idleness(routing(scores), use).backward()
    assert (scores.grad[:, 3] < 0).all() and (scores.grad[:, :3] > 0).all()


def test_following_the_balance_loss_evens_the_use():
    torch.manual_seed(0)
    x, router = torch.randn(400, 8), torch.randn(EXPERTS, 8) + 1
    router.requires_grad_()
    before = float(used(routing(x.abs() @ router.T)).max())
    for _ in range(200):
        made = routing(x.abs() @ router.T)
        batch_balance(made, used(made)).backward()
        with torch.no_grad():
            router -= 0.3 * router.grad
        router.grad = None
    assert float(used(routing(x.abs() @ router.T)).max()) < before / 2


def test_use_is_counted_by_topic():
    made = even(EXPERTS)
    topics = torch.arange(EXPERTS) % 2
    use = used_by(made, topics, 3)
    assert use.sum(1).tolist() == pytest.approx([0.5, 0.5, 0.0])
    assert torch.allclose(use.sum(0), used(made))


def apart(use):
    """Bits by which each topic's use is apart from that of all."""
    of_each = use / use.sum(1, keepdim=True)
    return (of_each * ((of_each + 1e-9) / (use.sum(0) + 1e-9)).log2()).sum(1)


def test_following_the_sameness_loss_gives_topics_experts_of_their_own_and_no_more_than_asked():
    torch.manual_seed(0)
    topics = torch.arange(400) % 2
    x, router = torch.randn(400, 8) + 0.8 * topics[:, None], (0.3 * torch.randn(EXPERTS, 8)).requires_grad_()
    before = apart(used_by(routing(x @ router.T), topics, 2))
    for _ in range(300):
        made = routing(x @ router.T)
        sameness(made, topics, used_by(made, topics, 2)).backward()
        with torch.no_grad():
            router -= 1.0 * router.grad
        router.grad = None
    made = routing(x @ router.T)
    use = used_by(made, topics, 2)
    assert (apart(use) > before + 0.1).all() and (apart(use) < DISTINCT + 0.1).all()
    assert sameness(made, topics, torch.full_like(use, 1 / use.numel())).item() == pytest.approx(0, abs=1e-6)


def test_larger_scores_cost_more():
    scores = torch.randn(30, EXPERTS)
    assert float(router_z(routing(3 * scores + 5))) > float(router_z(routing(scores)))


def test_the_router_loss_sums_the_layers():
    torch.manual_seed(0)
    made = routing(torch.randn(30, EXPERTS))
    topics = torch.arange(30) % 3
    use = used_by(made, topics, 3)
    one, two = (router_loss([made] * n, topics, use.repeat(n, 1, 1), (1e-2, 1e-2)) for n in (1, 2))
    assert float(two) == pytest.approx(2 * float(one))


def test_cross_entropy_and_its_gradients_are_torchs():
    torch.manual_seed(0)
    tokens = ROWS + 100
    hidden, output = torch.randn(tokens, 12, requires_grad=True), torch.randn(30, 12, requires_grad=True)
    targets, weights = torch.randint(30, (tokens,)), torch.rand(tokens)
    ours = cross_entropy(hidden, output, targets, weights)
    theirs = torch.nn.functional.cross_entropy(hidden @ output.T, targets, reduction="none") @ weights / weights.sum()
    torch.testing.assert_close(ours, theirs)
    pairs = zip(*(torch.autograd.grad(2 * loss, (hidden, output)) for loss in (ours, theirs)), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_tokens_without_weight_change_nothing():
    torch.manual_seed(0)
    hidden, output = torch.randn(60, 12, requires_grad=True), torch.randn(30, 12, requires_grad=True)
    targets, weights = torch.randint(30, (60,)), torch.rand(60)
    weights[::3] = 0
    kept = weights > 0
    ours = cross_entropy(hidden, output, targets, weights)
    torch.testing.assert_close(ours, cross_entropy(hidden[kept], output, targets[kept], weights[kept]))
    assert not torch.autograd.grad(ours, hidden)[0][::3].any()


def test_of_tokens_that_count_a_quarter_one_in_four_counts():
    torch.manual_seed(0)
    weights = torch.tensor([0.0, ASKED, 1.0])[torch.randint(3, (400,))]
    light = thinned(weights)
    assert float(light.sum()) == pytest.approx(float(weights.sum()), abs=1)
    assert set(light.tolist()) == {0.0, 1.0}
    assert torch.equal(light[weights != ASKED], weights[weights != ASKED])


def test_narrow_products_give_nearly_the_same():
    torch.manual_seed(0)
    hidden, output = torch.randn(200, 16, requires_grad=True), torch.randn(30, 16, requires_grad=True)
    targets, weights = torch.randint(30, (200,)), torch.rand(200)
    exact, narrow = (cross_entropy(hidden, output, targets, weights, t) for t in (torch.float32, torch.bfloat16))
    torch.testing.assert_close(exact, narrow, atol=0.02, rtol=0.01)
    for one, other in zip(*(torch.autograd.grad(loss, (hidden, output)) for loss in (exact, narrow)), strict=True):
        assert float((one - other).norm() / one.norm()) < 0.02
