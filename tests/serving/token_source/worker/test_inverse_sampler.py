"""Is the inverse of the cumulated probabilities what a sampler should be: the right shares, and the same draws?"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest
from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p

from serving.token_source.worker.inverse_sampler import InverseSampler, sample, uniforms

DRAWS = 20_000
SEEDS = st.integers(0, 2**63 - 1)


def logits_of(seed: int, rows: int, vocabulary: int, spread: float = 3.0) -> torch.Tensor:
    return spread * torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed))


@given(SEEDS, st.integers(0, 100_000))
def test_a_number_depends_on_its_seed_and_position_alone(seed: int, position: int) -> None:
    seeds, positions = np.array([7, seed, 9], np.uint64), np.array([1, position, 2])
    [alone] = uniforms(seeds[1:2], positions[1:2])
    assert 0 <= alone < 1 and uniforms(seeds, positions)[1] == alone


@pytest.mark.parametrize("along", ["positions", "seeds"])
def test_numbers_are_uniform_and_do_not_follow_each_other(along: str) -> None:
    counted, same = np.arange(DRAWS), np.full(DRAWS, 5)
    seeds, positions = (same, counted) if along == "positions" else (counted, same)
    drawn = uniforms(seeds.astype(np.uint64), positions)
    assert kstest(drawn, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.03


@pytest.mark.parametrize(("k", "p"), [(None, None), (5, None), (None, 0.7), (12, 0.9), (None, 0.02)])
def test_tokens_come_as_often_as_vllm_says(k: int | None, p: float | None) -> None:
    row = logits_of(1, 1, 40)
    many = row.expand(DRAWS, -1).contiguous()
    tops = None if k is None else torch.full((DRAWS,), k, dtype=torch.int32)
    shares = None if p is None else torch.full((DRAWS,), p)
    drawn = torch.from_numpy(uniforms(np.arange(DRAWS, dtype=np.uint64), np.zeros(DRAWS)))
    counts = torch.bincount(sample(many, drawn, tops, shares), minlength=40).numpy()
    masked = apply_top_k_top_p(row.clone(), None if tops is None else tops[:1], None if shares is None else shares[:1])
    expected = DRAWS * torch.softmax(masked.double(), -1)[0].numpy()
    assert not counts[expected == 0].any(), "what top-k and top-p leave out never comes"
    # Those that are too rare for the test come together.
    often, rare = expected > 5, (expected > 0) & (expected <= 5)
    bins = [(counts[often], expected[often]), (counts[rare].sum(keepdims=True), expected[rare].sum(keepdims=True))]
    seen, wanted = (np.concatenate(part) for part in zip(*bins[: 1 + rare.any()], strict=True))
    assert chisquare(seen, wanted * seen.sum() / wanted.sum()).pvalue > 1e-4 if len(seen) > 1 else seen[0] == DRAWS


@given(
    SEEDS,
    st.lists(st.tuples(st.sampled_from([1, 3, 128, 129, 1025, 1500]), st.floats(0.01, 1.0)), min_size=1, max_size=8),
    st.sampled_from([0.01, 1.0, 20.0]),
)
def test_a_row_draws_the_same_whoever_else_is_in_the_batch(
    seed: int, limits: list[tuple[int, float]], spread: float
) -> None:
    """Flat and steep ones, whose share the largest logits hold or not; and never what vLLM would leave out."""
    logits = logits_of(seed % 1000, len(limits), 1500, spread)
    k = torch.tensor([most for most, _ in limits], dtype=torch.int32)
    p = torch.tensor([share for _, share in limits])
    drawn = torch.rand(len(limits), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    together = sample(logits, drawn, k, p)
    allowed = apply_top_k_top_p(logits.clone(), k, p)
    for row in range(len(limits)):
        one = slice(row, row + 1)
        assert sample(logits[one], drawn[one], k[one], p[one]) == together[row]
        # A share of exactly p is a matter of rounding: the token at the edge may be in or out.
        edge = logits[row][allowed[row] > -torch.inf].min()
        assert logits[row, together[row]] >= edge - 1e-3 * max(1.0, spread)


def test_the_ends_of_the_unit_interval_are_tokens_that_have_a_share() -> None:
    logits = torch.full((2, 1000), -torch.inf)
    logits[:, 300:302] = 0.0
    drawn = torch.tensor([0.0, np.nextafter(1.0, 0.0)], dtype=torch.float64)
    assert sample(logits, drawn).tolist() == [300, 301]
    assert sample(logits, drawn, p=torch.tensor([0.9, 0.9])).tolist() in ([300, 301], [301, 300])


def test_a_seed_draws_by_position_and_no_seed_by_chance() -> None:
    positions = np.array([0, 4, 4])
    sampler = InverseSampler(lambda: positions)
    logits = torch.zeros(3, 100_000)
    generators = {1: torch.Generator().manual_seed(11), 2: torch.Generator().manual_seed(11)}
    first, _ = sampler(logits, generators, None, None)
    again, _ = sampler(logits, generators, None, None)
    assert first[1] == again[1] == first[2] == again[2]
    assert first[0] != again[0]
    positions += 1
    later, _ = sampler(logits, generators, None, None)
    assert later[1] != first[1]
