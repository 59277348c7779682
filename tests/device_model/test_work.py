"""Is the closed form of a batch's work what counting it gives, for any model?"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.size import ModelSize
from device_model.specs.spec import Model
from device_model.specs.spec_file import SPECS, names_in, read_named
from device_model.step import StepPlan
from device_model.work import StepWork, all_decode

MODELS = {name: read_named(Model, "model", name, SPECS / "models") for name in names_in(SPECS / "models")}
SIZES = [ModelSize.of(model) for model in MODELS.values()]
LATENT = [ModelSize.of(model) for model in MODELS.values() if model.attention == "mla"]
sizes = st.sampled_from(SIZES)
sequences = st.tuples(st.one_of(st.just(1), st.integers(1, 300)), st.integers(0, 400))
batches = st.lists(sequences, min_size=1, max_size=5)
windows = st.integers(1, 300)


@given(batches, st.integers(1, 4), windows)
def test_what_is_beyond_a_window_is_what_counting_it_gives(batch, steps, window):
    work = StepWork.of(StepPlan.of(*batch), steps)
    held, read, pairs = map(
        np.atleast_1d, (work.held_beyond(window), work.read_beyond(window), work.pairs_beyond(window))
    )
    for i in range(steps):
        grown = [(new, context + i * new) for new, context in batch]
        assert held[i] == sum(max(context + new - window, 0) for new, context in grown)
        assert read[i] == sum(max(context + 1 - window, 0) for new, context in grown)
        ends = [context + query + 1 for new, context in grown for query in range(new)]
        assert pairs[i] == sum(max(end - window, 0) for end in ends)


@given(sizes, batches, st.integers(1, 6))
def test_k_steps_are_k_times_one_step_for_any_model(size, batch, steps):
    plan = StepPlan.of(*batch)
    together = everything(size, StepWork.of(plan, steps))
    grown = [StepPlan(plan.new_tokens, plan.context + i * plan.new_tokens) for i in range(steps)]
    alone = [everything(size, StepWork.of(p, 1)) for p in grown]
    np.testing.assert_allclose(together, np.concatenate(alone, axis=1), rtol=1e-12)


def everything(size, work):
    figures = (size.kv_held_bytes(work), size.kv_traffic_bytes(work), size.attention_macs(work))
    return np.array([np.atleast_1d(figure) for figure in figures])


@given(batches, st.integers(1, 400))
def test_a_wider_window_holds_reads_and_computes_no_less_and_the_widest_is_none(batch, window):
    work = StepWork.of(StepPlan.of(*batch), 1)
    narrow, wide, none = (everything(with_window(w), work) for w in (window, window + 7, 10_000))
    assert (narrow <= wide).all()
    np.testing.assert_allclose(none, everything(with_window(0), work))


def with_window(window):
    layers = 12 if window else 0
    model = dataclasses.replace(MODELS["gpt-oss-20b"], sliding_window=window, sliding_window_layers=layers)
    return ModelSize.of(model)


@given(sizes, batches)
def test_the_cache_after_a_step_is_that_of_its_contexts(size, batch):
    work = StepWork.of(StepPlan.of(*batch), 1)
    ends = [new + context for new, context in batch]
    beyond = sum(max(end - size.window, 0) for end in ends) * size.windowed
    assert size.kv_held_bytes(work) == pytest.approx((sum(ends) - beyond) * size.kv_bytes_per_token)
    decode = StepWork.of(StepPlan.of(*[(1, context) for _, context in batch]), 1)
    assert size.kv_read_bytes(decode) == pytest.approx(size.kv_held_bytes(decode))


@given(st.sampled_from(LATENT), st.integers(0, 4000), st.lists(st.integers(1, 1000), min_size=2, max_size=4))
def test_chunks_of_an_mla_prefill_compute_no_less_than_the_whole(size, context, chunks):
    """Each chunk may expand the latents before it anew; a layer without latents computes the same in chunks."""
    starts = [context + sum(chunks[:i]) for i in range(len(chunks))]
    parts = sum(attention_macs(size, pair) for pair in zip(chunks, starts, strict=True))
    assert parts >= attention_macs(size, (sum(chunks), context)) * (1 - 1e-9)


@given(st.sampled_from(LATENT), st.integers(1, 3000), st.integers(0, 5000), st.integers(1, 500))
def test_mla_computes_more_for_more_tokens_and_for_a_longer_context(size, new, context, more):
    macs = attention_macs(size, (new, context))
    assert attention_macs(size, (new + more, context)) >= macs
    assert attention_macs(size, (new, context + more)) >= macs


def attention_macs(size, sequence):
    return size.attention_macs(StepWork.of(StepPlan.of(sequence), 1))


@given(batches, st.integers(1, 6), st.data())
def test_a_prompts_last_token_is_work_like_any_other_and_nobody_drafts_for_it(batch, each, data):
    ones = [i for i, (new, _) in enumerate(batch) if new == 1]
    decoding = np.array(sorted(data.draw(st.sets(st.sampled_from(ones)))) if ones else [], dtype=np.int64)
    plan = dataclasses.replace(StepPlan.of(*batch), decoding=decoding)
    said, unsaid = StepWork.of(plan, 1), StepWork.of(StepPlan.of(*batch), 1)
    assert (said.tokens, said.kv_tokens, said.pairs) == (unsaid.tokens, unsaid.kv_tokens, unsaid.pairs)
    assert (said.decoding, said.prefill_tokens) == (len(decoding), said.tokens - len(decoding))
    assert all_decode(plan) == (len(decoding) == len(batch))
    if len(decoding):
        drafted = said.drafted(each, prefill=True)
        assert drafted.tokens == said.tokens + len(decoding) * (each - 1)
        assert said.drafted(each, prefill=False).tokens == len(decoding) * each
