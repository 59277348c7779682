"""Does the token model draft in numpy as the lab's torch has it draft, and do pools and trees do what they are to?"""

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from device_model.step import NO_EXPERT, DraftShape
from serving.drafting.attention import PassTokens
from serving.drafting.drafter import DraftContext, Drafter, drafter
from serving.drafting.forward import forward, logits
from serving.drafting.weights import in_four_bits, in_int8, in_slices, load
from serving.lab.self_speculation import model as lab_model
from serving.lab.self_speculation import weights as lab_weights
from serving.lab.self_speculation.decode import DecodePlan, speculate
from serving.lab.self_speculation.drafts.elastic import Elastic
from serving.lab.self_speculation.model import Pass
from serving.scenario.scenario import BUNDLED_MODEL
from serving.usage_error import UsageError
from tests.serving.lab.self_speculation.models import prompts, reference

ASKED = ["What is the derivative of x squared?", "Who wrote the constitution?", "Sort a list in Python."]


def of_one(ids: list[int], of: Drafter) -> PassTokens:
    return PassTokens(np.array(ids), np.arange(len(ids)), of.empty(), 0, np.tri(len(ids), dtype=bool))


@pytest.fixture(scope="module")
def bundled() -> tuple[Drafter, Elastic, list[list[int]]]:
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED_MODEL)
    asked = [tokenizer(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")["input_ids"] for text in ASKED]
    return drafter(str(BUNDLED_MODEL), "elastic"), Elastic(lab_weights.load(BUNDLED_MODEL)), asked


def test_a_drafter_is_loaded_once_and_again_once_its_weights_have_changed(tmp_path):
    reference(3).float().save_pretrained(tmp_path)
    first = drafter(str(tmp_path), "elastic")
    assert drafter(str(tmp_path), "elastic") is first
    reference(4).float().save_pretrained(tmp_path)
    assert (drafter(str(tmp_path), "elastic").target.embedding != first.target.embedding).any()


def test_a_pass_is_that_of_the_lab_free_and_confined_to_a_pool(tmp_path):
    reference(3).float().save_pretrained(tmp_path)
    ours, theirs = load(tmp_path), lab_weights.load(tmp_path)
    shape, layers = ours.shape, len(ours.layers)
    pool = np.random.default_rng(0).random((layers, shape.experts)) < 0.4
    of = Drafter(ours, ours)
    for pools in (None, pool):
        for ids in prompts(3, seed=1):
            passed = forward(ours, [of_one(ids, of)], pools)
            run = Pass(None if pools is None else torch.from_numpy(pools)[None])
            cache = lab_model.new_cache(theirs, 1, len(ids))
            hidden = lab_model.forward(theirs, torch.tensor([ids]), cache, run)
            wanted = np.stack([routing.wanted.numpy() for routing in run.routings], axis=1)
            assert (passed.wanted == wanted).all()
            assert logits(ours, passed.hidden) == pytest.approx(lab_model.logits(theirs, hidden)[0].numpy(), abs=2e-4)
            if pools is not None:
                layer = np.broadcast_to(np.arange(layers)[:, None], passed.computed.shape)
                real = passed.computed != NO_EXPERT
                assert pools[layer[real], passed.computed[real]].all() and not (real.sum(axis=2) == 0).any()


def test_several_sequences_in_one_pass_are_as_each_by_itself(bundled):
    of, _, asked = bundled
    together = forward(of.target, [of_one(ids, of) for ids in asked])
    alone = np.concatenate([forward(of.target, [of_one(ids, of)]).hidden for ids in asked])
    assert together.hidden == pytest.approx(alone, abs=1e-3)


def test_what_is_read_in_parts_is_as_what_is_read_at_once(bundled):
    of, _, asked = bundled
    whole = of.read(asked[0])
    parts = of.read(asked[0][7:], of.read(asked[0][:7]))
    assert parts.keys == pytest.approx(whole.keys, abs=1e-3) and parts.values == pytest.approx(whole.values, abs=1e-3)


@pytest.mark.slow
def test_chains_have_as_many_accepted_as_the_lab_measures(bundled):
    of, elastic, asked = bundled
    plan = DecodePlan(depth=4, new_tokens=24)
    run = speculate(elastic.target, elastic.draft("augmented", 4), asked, plan)
    shape, counted, right = DraftShape(4, 1, 4), 0, 0
    for ids, answer in zip(asked, run.answers, strict=True):
        text, at = [*ids, *answer.tokens], len(ids)
        for accepted in answer.accepted[:-1]:
            context = DraftContext(of.read(text[:at]), text[at], text[at + 1 :])
            found = of.draft([context], shape, None)
            counted, right = counted + 1, right + (found.accepted == [accepted])
            at += accepted + 1
    # A tie between two tokens may fall to either.
    assert counted > 8 and right >= counted - 1


@pytest.mark.slow
def test_a_wider_tree_has_more_accepted_and_a_pool_less(bundled):
    of, _, asked = bundled
    contexts = []
    for ids in asked:
        text = [
            *ids,
            *speculate(bundled[1].target, bundled[1].draft("augmented", 4), [ids], DecodePlan(0, 40)).answers[0].tokens,
        ]
        contexts += [
            DraftContext(of.read(text[:at]), text[at], text[at + 1 :]) for at in range(len(ids), len(text) - 8, 5)
        ]
    few = np.zeros((4, 64), dtype=bool)
    few[:, ::4] = True
    chain, tree, pooled = (
        of.draft(contexts, shape, pool)
        for shape, pool in ((DraftShape(5, 1, 5), None), (DraftShape(5, 4, 20), few), (DraftShape(5, 1, 5), few))
    )
    assert sum(pooled.accepted) < sum(tree.accepted) <= sum(chain.accepted) <= 5 * len(contexts)
    assert [len(each) for each in tree.wanted] == [len(contexts), *[4 * len(contexts)] * 4]
    assert all(len(each) == 21 for each in tree.verified)


def test_each_scheme_drafts_with_weights_of_its_own(bundled):
    matrix = bundled[0].target.layers[0].q
    close, coarse, own = in_int8(matrix), in_slices(matrix), in_four_bits(matrix)
    off = [float(np.abs(each - matrix).mean()) for each in (close, coarse, own)]
    assert off[0] < 0.2 * off[1] and off[0] < 0.2 * off[2] and (coarse != own).any()


def test_another_family_of_models_is_refused(tmp_path):
    with pytest.raises(UsageError, match="Qwen3-MoE"):
        load(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UsageError, match="is of llama"):
        load(tmp_path)
