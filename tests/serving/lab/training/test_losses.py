"""Do the losses ask for what they say?"""

import pytest
import torch

from serving.lab.training.experts import TrainedRouting
from serving.lab.training.losses import ROWS, batch_balance, cross_entropy, router_loss, router_z, segment_balance, used

EXPERTS, ACTIVE = 16, 4


def routing(scores):
    shares = scores.softmax(-1)
    best, chosen = shares.topk(ACTIVE, -1)
    return TrainedRouting(scores, shares, chosen, best / best.sum(-1, keepdim=True))


def even(tokens):
    """Each token strongly to four experts, all used alike."""
    first = torch.arange(tokens)[:, None] * ACTIVE
    return routing(torch.zeros(tokens, EXPERTS).scatter_(1, (first + torch.arange(ACTIVE)) % EXPERTS, 30.0))


def test_even_use_costs_one():
    made = even(EXPERTS * 3)
    assert float(batch_balance(made, used(made))) == pytest.approx(1.0)
    assert float(segment_balance(made, [EXPERTS, 2 * EXPERTS])) == pytest.approx(1.0)


def test_collapse_on_the_first_few_costs_as_many_times_more():
    scores = torch.zeros(40, EXPERTS)
    scores[:, :ACTIVE] = 30.0
    made = routing(scores)
    assert float(batch_balance(made, used(made))) == pytest.approx(EXPERTS / ACTIVE)


def test_specialised_segments_are_balanced_as_a_batch_but_not_in_themselves():
    scores = torch.zeros(40, EXPERTS)
    for segment in range(4):
        scores[10 * segment : 10 * (segment + 1), ACTIVE * segment : ACTIVE * (segment + 1)] = 30.0
    made = routing(scores)
    assert float(batch_balance(made, used(made))) == pytest.approx(1.0)
    assert float(segment_balance(made, [10] * 4)) == pytest.approx(EXPERTS / ACTIVE)


def test_one_segment_is_a_batch():
    torch.manual_seed(0)
    made = routing(torch.randn(50, EXPERTS))
    assert float(segment_balance(made, [50])) == pytest.approx(float(batch_balance(made, used(made))))


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


def test_larger_scores_cost_more():
    scores = torch.randn(30, EXPERTS)
    assert float(router_z(routing(3 * scores + 5))) > float(router_z(routing(scores)))


def test_the_router_loss_sums_the_layers():
    torch.manual_seed(0)
    made = routing(torch.randn(30, EXPERTS))
    one, two = (router_loss([made] * n, [10, 20], used(made).repeat(n, 1), 1e-2) for n in (1, 2))
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
