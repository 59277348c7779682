"""Is the forward pass the one of transformers, with and without a cache, throttled and cut short?"""

import pytest
import torch
from safetensors.torch import save_file

from serving.lab.self_speculation.model import Pass, forward, logits, new_cache, prefill
from serving.lab.self_speculation.weights import digest, load
from serving.usage_error import UsageError
from tests.serving.lab.self_speculation.models import prompts, random_weights, reference, weights_of

ATOL = 1e-4  # transformers normalises and routes in float32, whatever the model is in
SHAPES = [
    {},
    {"norm_topk_prob": False},
    {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False},
]


@pytest.mark.parametrize("shape", SHAPES)
def test_logits_are_those_of_transformers(shape):
    model = reference(**shape)
    tokens = torch.randint(0, 96, (3, 17))
    weights = weights_of(model)
    with torch.inference_mode():
        ours = logits(weights, forward(weights, tokens, new_cache(weights, 3, 17)))
        assert torch.allclose(ours, model(tokens).logits, atol=ATOL)
        single = weights.to(torch.float32)
        ours = logits(single, forward(single, tokens, new_cache(single, 3, 17)))
        assert torch.allclose(ours.double(), model(tokens).logits, atol=ATOL)


def test_ragged_sequences_with_a_cache_are_as_each_is_alone():
    model = reference(1)
    weights = weights_of(model)
    asked = prompts(5)
    more = torch.randint(0, 96, (5, 4))
    with torch.inference_mode():
        cache, last = prefill(weights, asked, 40)
        for row, prompt in enumerate(asked):
            assert torch.allclose(last[row], model(torch.tensor([prompt])).logits[0, -1], atol=ATOL)
        pieces = [forward(weights, more[:, :1], cache)]
        cache.lengths += 1
        pieces.append(forward(weights, more[:, 1:], cache))
        ours = logits(weights, torch.cat(pieces, 1))
        for row, prompt in enumerate(asked):
            whole = model(torch.tensor([prompt + more[row].tolist()])).logits[0, -4:]
            assert torch.allclose(ours[row], whole, atol=ATOL)


def test_dropped_sequences_leave_the_others_as_they_were():
    weights = random_weights(2)
    more = torch.randint(0, 96, (4, 2))
    with torch.inference_mode():
        cache, _ = prefill(weights, prompts(4), 30)
        before = forward(weights, more, cache)
        cache.keep([1, 3])
        assert torch.allclose(forward(weights, more[[1, 3]], cache), before[[1, 3]], atol=1e-12)


def test_a_pool_takes_the_highest_scores_within_it_and_normalises_them():
    weights = random_weights(3)
    tokens = torch.randint(0, 96, (2, 5))
    pools = torch.zeros(2, 3, 16, dtype=torch.bool)
    pools[0, :, :6] = True
    pools[1, :, 4:] = True
    run = Pass(pools=pools)
    with torch.inference_mode():
        forward(weights, tokens, new_cache(weights, 2, 5), run)
    for routing in run.routings:
        assert (routing.chosen[:5] < 6).all() and (routing.chosen[5:] >= 4).all()
        assert torch.allclose(routing.weights.sum(-1), torch.ones(10, dtype=torch.float64))
        for row in range(10):
            allowed = [e for e in routing.wanted[row].tolist() if pools[row // 5, 0, e]]
            assert routing.chosen[row].tolist()[: len(allowed)] == allowed


def test_a_pool_of_all_experts_changes_nothing_and_an_empty_one_leaves_attention():
    weights = random_weights(4)
    tokens = torch.randint(0, 96, (2, 5))
    with torch.inference_mode():
        free = forward(weights, tokens, new_cache(weights, 2, 5))
        everything = Pass(pools=torch.ones(2, 3, 16, dtype=torch.bool))
        assert torch.equal(forward(weights, tokens, new_cache(weights, 2, 5), everything), free)
        nothing = Pass(pools=torch.zeros(2, 3, 16, dtype=torch.bool))
        assert forward(weights, tokens, new_cache(weights, 2, 5), nothing).isfinite().all()


def test_an_early_exit_is_the_model_of_the_first_layers():
    model = reference(5)
    weights = weights_of(model)
    tokens = torch.randint(0, 96, (2, 5))
    with torch.inference_mode():
        states = model(tokens, output_hidden_states=True).hidden_states
        for layers in (1, 2):
            early = forward(weights, tokens, new_cache(weights, 2, 5), Pass(exit_after=layers))
            assert torch.allclose(early, model.model.norm(states[layers]), atol=ATOL)


def test_a_checkpoint_is_read_as_it_was_saved(tmp_path):
    model = reference(6).float()
    model.save_pretrained(tmp_path)
    weights = load(tmp_path)
    tokens = torch.randint(0, 96, (2, 9))
    with torch.inference_mode():
        ours = logits(weights, forward(weights, tokens, new_cache(weights, 2, 9)))
        assert torch.allclose(ours, model(tokens).logits, atol=ATOL)
    assert digest(tmp_path) == digest(tmp_path)
    with pytest.raises(UsageError, match="safetensors"):
        (tmp_path / "model.safetensors").unlink()
        load(tmp_path)


def test_a_checkpoint_that_is_damaged_or_not_whole_is_refused(tmp_path):
    reference(6).float().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match=r"--token-model is .*allowed is a checkpoint"):
        load(tmp_path)
    save_file({"model.embed_tokens.weight": torch.zeros(96, 32)}, path)
    with pytest.raises(UsageError, match=r"which lacks 'layers\.0.*allowed is a whole checkpoint"):
        load(tmp_path)
