"""Does a model with wider heads compute what it did?"""

from dataclasses import replace

import pytest
import torch

from serving.lab.training import widening
from serving.lab.training.model import TrainedModel, initialise
from serving.lab.training.shape import ModelShape
from serving.lab.training.widening import widened

NARROW = ModelShape(
    vocabulary=128, layers=2, hidden=32, heads=3, kv_heads=1, head_size=16, experts=8, active=2, expert_hidden=16
)
LENGTHS = [70, 20]


@pytest.fixture
def model():
    made = initialise(TrainedModel(NARROW), 3)
    with torch.no_grad():
        for name, weights in made.named_parameters():
            weights.mul_(1 + torch.rand(weights.shape) if name.endswith("scale") else 2)
    return made


def hidden(model):
    torch.manual_seed(5)
    with torch.no_grad():
        return model(torch.randint(NARROW.vocabulary, (sum(LENGTHS),)), LENGTHS)[0]


def apart(model, other):
    return float((hidden(model) - hidden(other)).norm() / hidden(model).norm())


def test_it_computes_the_same_where_angles_are_kept_and_nothing_new_is_asked(model, monkeypatch):
    monkeypatch.setattr(widening, "SPREADS", {"q": 0.0, "k": 0.0, "v": 1.0})
    assert apart(model, widened(model, 32)) < 1e-5
    assert apart(model, widened(model, 64)) < 1e-5


@pytest.mark.parametrize(("size", "share"), [(32, 0.1), (24, 0.3)])
def test_what_is_new_changes_little_at_first(size, share):
    narrow = initialise(TrainedModel(NARROW), 3)
    wide = widened(narrow, size)
    assert wide.shape == replace(NARROW, head_size=size)
    stranger = initialise(TrainedModel(wide.shape), 4)
    assert 0 < apart(narrow, wide) < share * apart(narrow, stranger)


def test_what_is_new_learns(model):
    wide = widened(model, 32)
    hidden, _ = wide(torch.arange(90), LENGTHS)
    weights = dict(wide.named_parameters())
    grads = torch.autograd.grad(hidden.square().cumsum(-1).sum(), [weights["layers.0.attention.o"]])
    at = torch.ones(32, dtype=torch.bool)
    at[widening._places(16, 32)] = False
    assert bool((grads[0].unflatten(1, (3, 32))[..., at] != 0).any())


def test_it_keeps_a_model_of_the_same_size_and_refuses_a_wider_one(model):
    assert apart(model, widened(model, 16)) == 0
    with pytest.raises(ValueError, match="heads are of 16, not of 8"):
        widened(model, 8)
