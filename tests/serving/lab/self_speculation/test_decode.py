"""Is speculation lossless, greedy and sampled, and what is accepted what should be?"""

from collections import Counter

import pytest
import torch
from scipy.stats import chisquare

from serving.lab.self_speculation.decode import DecodePlan, speculate
from serving.lab.self_speculation.draft import BF16_BITS, Bits, DraftModel
from serving.lab.self_speculation.drafts.cassandra import Cassandra, Cut
from serving.lab.self_speculation.drafts.elastic import TREATMENTS, Elastic
from serving.lab.self_speculation.drafts.first_layers import first_layers
from serving.lab.self_speculation.pools import PoolPlan
from serving.lab.self_speculation.rejection import distribution, judge, sample
from serving.lab.self_speculation.wanda import calibrate
from serving.lab.self_speculation.weights import ModelWeights, load
from serving.scenario.scenario import BUNDLED_MODEL
from tests.serving.lab.self_speculation.models import prompts, random_weights

GREEDY = DecodePlan(depth=4, new_tokens=14)


def plainly(target: ModelWeights, asked: list[list[int]], plan: DecodePlan) -> list[list[int]]:
    """The target's own answers, a token at a time: what speculation must give too."""
    own = DraftModel(target, Bits(BF16_BITS, BF16_BITS))
    return [answer.tokens for answer in speculate(target, own, asked, plan._replace(depth=0)).answers]


def every_draft(source):
    """(name, target, draft) of each family."""
    elastic = Elastic(source)
    for treatment in TREATMENTS:
        yield f"{treatment} 4 bits", elastic.target, elastic.draft(treatment, 4)
    for kind in ("hot", "random"):
        for scope in ("layer", "all"):
            pool = PoolPlan(0.25, kind, sharing=2, scope=scope)
            yield f"{kind} pool, {scope}", elastic.target, elastic.draft("augmented", 4).throttled(pool)
    cassandra = Cassandra(source, calibrate(source, prompts(90)))
    yield "cassandra-1", cassandra.target, cassandra.first(Cut())
    yield "cassandra-1, pruned cache", cassandra.target, cassandra.first(Cut(kv_pruned=0.4))
    yield "cassandra-2", cassandra.shared_target(0.4), cassandra.second(Cut())
    yield "first layer", source, first_layers(source, 1)


DRAFTS = list(every_draft(random_weights()))


@pytest.mark.parametrize(("target", "draft"), [case[1:] for case in DRAFTS], ids=[case[0] for case in DRAFTS])
def test_greedy_text_is_the_targets_token_for_token(target, draft):
    run = speculate(target, draft, prompts(5), GREEDY)
    assert [answer.tokens for answer in run.answers] == plainly(target, prompts(5), GREEDY)
    for answer in run.answers:
        assert all(0 <= count <= GREEDY.depth for count in answer.accepted)
        assert len(answer.tokens) == GREEDY.new_tokens <= 1 + sum(answer.accepted) + len(answer.accepted)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_draft_that_is_the_target_has_all_accepted(temperature):
    weights = random_weights(1)
    plan = DecodePlan(depth=3, new_tokens=13, temperature=temperature)
    run = speculate(weights, DraftModel(weights, Bits(16, 16)), prompts(4), plan)
    assert all(answer.accepted == [3, 3, 3] for answer in run.answers)
    assert run.experts_read == 3 * 4  # top-4 of three layers


def test_a_seed_may_be_of_any_size():
    weights = random_weights(1)
    elastic = Elastic(weights)
    draft = elastic.draft("augmented", 4).throttled(PoolPlan(0.25, "random"))
    for seed in (20261129032119, 2**64):
        plan = DecodePlan(depth=2, new_tokens=3, seed=seed)
        assert len(speculate(elastic.target, draft, prompts(1), plan).answers[0].tokens) == 3


@pytest.mark.slow
def test_greedy_text_of_the_bundled_model_is_its_own():
    plan = DecodePlan(depth=4, new_tokens=10)
    asked = prompts(3, vocabulary=4000)
    for _, target, draft in every_draft(load(BUNDLED_MODEL).to(torch.float64)):
        run = speculate(target, draft, asked, plan)
        assert [answer.tokens for answer in run.answers] == plainly(target, asked, plan)


def test_an_eight_bit_slice_is_the_target():
    elastic = Elastic(random_weights(2))
    for treatment in TREATMENTS:
        run = speculate(elastic.target, elastic.draft(treatment, 8), prompts(3), GREEDY)
        assert all(set(answer.accepted) == {4} for answer in run.answers)


def test_a_sampled_answer_is_seeded_and_does_not_depend_on_the_batch():
    weights = random_weights(3)
    plan = DecodePlan(depth=3, new_tokens=10, temperature=1.0, seed=5)
    draft = Elastic(weights).draft("augmented", 4)
    run = speculate(weights, draft, prompts(4), plan)
    assert run == speculate(weights, draft, prompts(4), plan)
    assert run.answers[:2] == speculate(weights, draft, prompts(4)[:2], plan).answers
    assert run != speculate(weights, draft, prompts(4), plan._replace(seed=6))


def test_an_answer_ends_at_the_end_of_sequence_token():
    weights = random_weights(4)
    free = speculate(weights, first_layers(weights, 1), prompts(6), GREEDY)
    eos = free.answers[0].tokens[5]
    shape = weights.shape._replace(eos=eos)
    ending = type(weights)(shape, weights.embedding, weights.layers, weights.norm, weights.head)
    run = speculate(ending, first_layers(ending, 1), prompts(6), GREEDY)
    for answer, whole in zip(run.answers, free.answers, strict=True):
        assert answer.tokens == whole.tokens[: whole.tokens.index(eos) if eos in whole.tokens else None]
    assert [a.tokens for a in run.answers] == plainly(ending, prompts(6), GREEDY)


def test_rejection_keeps_the_targets_distribution():
    """The first two tokens that 20,000 draws emit, beside the target's own two distributions."""
    generator = torch.Generator().manual_seed(7)
    draws, vocabulary = 20_000, 6
    p = torch.rand(2, vocabulary, dtype=torch.float64, generator=generator).softmax(-1)
    p = torch.stack([p[0], p[1]]) ** 3
    p /= p.sum(-1, keepdim=True)
    q = torch.rand(1, vocabulary, dtype=torch.float64, generator=generator) ** 2
    q /= q.sum(-1, keepdim=True)
    uniform = torch.rand(draws, 3, dtype=torch.float64, generator=generator)
    tokens = sample(q.expand(draws, -1), uniform[:, 0])[:, None]
    verdict = judge(p.expand(draws, 2, -1).clone(), q.expand(draws, 1, -1), tokens, uniform[:, 1:])
    first = torch.where(verdict.accepted == 1, tokens[:, 0], verdict.following)
    second = verdict.following[verdict.accepted == 1]
    for seen, expected in ((first, p[0]), (second, p[1])):
        counts = torch.bincount(seen, minlength=vocabulary).double()
        assert chisquare(counts, expected * len(seen)).pvalue > 0.001
    rate = torch.minimum(p[0], q[0]).sum()
    assert abs(verdict.accepted.double().mean() - rate) < 4 * (rate * (1 - rate) / draws).sqrt()
    assert chisquare(torch.bincount(tokens[:, 0], minlength=vocabulary).double(), p[0] * draws).pvalue < 0.001


def test_speculation_samples_as_the_target_does():
    """The joint of the second and third token of an answer, from a real draft and from plain sampling."""
    weights = random_weights(8, vocab_size=6, num_hidden_layers=2)
    draft = Elastic(weights).draft("truncated", 3)
    plan = DecodePlan(depth=2, new_tokens=3, temperature=1.5, seed=1)
    same = [[1, 2, 3]] * 1500
    ours = Counter(tuple(answer.tokens) for answer in speculate(weights, draft, same, plan).answers)
    assert 0.1 < _alpha(speculate(weights, draft, same[:300], plan).answers, 2) < 0.9
    theirs = Counter(map(tuple, plainly(weights, same, plan._replace(seed=2))))
    often = [text for text, count in theirs.items() if count + ours[text] >= 20]
    table = torch.tensor([[ours[text], theirs[text]] for text in often], dtype=torch.float64)
    table = torch.cat([table, 1500 - table.sum(0, keepdim=True)])
    expected = table.sum(1, keepdim=True).expand_as(table) / 2
    used = expected[:, 0] > 0
    statistic = ((table - expected) ** 2 / expected)[used].sum()
    freedom = int(used.sum()) - 1
    assert statistic < freedom + 4 * (2 * freedom) ** 0.5


def _alpha(answers, depth):
    return sum(sum(a.accepted) for a in answers) / (depth * sum(len(a.accepted) for a in answers))


def test_a_distribution_at_temperature_nought_is_one_token():
    assert distribution(torch.tensor([[0.1, 2.0, -1.0]]), 0.0).tolist() == [[0, 1, 0]]
    flat = distribution(torch.tensor([[0.0, 1.0]]), 1000.0)
    assert torch.allclose(flat, torch.tensor([[0.5, 0.5]], dtype=torch.float64), atol=1e-3)
