"""Does a fast memory that keeps the hottest experts find what it holds, and no more?"""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.experts.fidelity import CacheAsk
from device_model.experts.hot_hits import expected_touch
from device_model.experts.hottest import HottestCached
from device_model.experts.locality_laws import PassTokens
from device_model.load import load_model
from device_model.specs.spec import Contradiction

NEARLY = 1 - 1e-9
models = st.sampled_from([load_model(name) for name in ("olmoe-1b-7b", "mixtral-8x7b", "qwen3-30b-a3b")])
passes = st.builds(PassTokens, st.integers(1, 64), st.just(1), st.integers(0, 500))
shares = st.floats(0, 1)


def reads(model, tokens, share):
    return HottestCached(model).probe(CacheAsk(tokens, share * model.experts * model.expert_layers))


@given(models, passes, shares, shares)
def test_a_larger_memory_finds_no_less_and_all_of_them_everything(model, tokens, one, another):
    small, large = (reads(model, tokens, share) for share in sorted((one, another)))
    assert small.hits <= large.hits / NEARLY
    assert reads(model, tokens, 0.0).hits == 0
    assert reads(model, tokens, 1.0).hits == pytest.approx(reads(model, tokens, 1.0).touched)


@given(models, passes, shares)
def test_hits_are_no_fewer_than_by_chance_and_no_more_than_are_held(model, tokens, share):
    found = reads(model, tokens, share)
    assert share * found.touched * NEARLY <= found.hits <= share * model.experts * model.expert_layers / NEARLY + 1e-9
    assert 0 <= found.written <= found.touched - found.hits + 1e-9


@given(models, st.integers(1, 128), shares, st.integers(1, 256))
def test_a_token_reads_as_many_experts_as_it_chooses_whatever_its_top_k(model, top_k, more, tokens):
    """A hot share below the even one, as of a top-k that it wasn't published for, can't be."""
    top_k = min(top_k, model.experts)
    evenly = top_k / model.experts
    asked = dataclasses.replace(model, top_k=top_k, hot_hit_rate=evenly + more * (1 - evenly))
    layers = model.expert_layers
    alone, many = (expected_touch(asked, count).touched for count in (1, tokens))
    assert alone == pytest.approx(top_k * layers)
    assert alone * NEARLY <= many <= model.experts * layers / NEARLY
    with pytest.raises(Contradiction, match="hot_hit_rate: allowed is at least top_k / experts"):
        dataclasses.replace(asked, hot_hit_rate=evenly * 0.99)


def test_one_token_finds_as_published_where_as_many_are_held_as_are_hot():
    olmoe = load_model("olmoe-1b-7b")
    found = reads(olmoe, PassTokens(1, 1), 8 / 64)
    assert found.hits / found.touched == pytest.approx(0.485)
    even = load_model("qwen3-30b-a3b")  # nobody has published which share is hot
    assert reads(even, PassTokens(4, 1), 0.3).hits == pytest.approx(0.3 * reads(even, PassTokens(4, 1), 0.3).touched)
