"""Do pools hold what was routed to most, in the right number, for the sequences that share them?"""

import pytest
import torch

from serving.drafting.checkpoint import WeightsShape
from serving.lab.self_speculation.experts import ExpertRouting
from serving.lab.self_speculation.pools import PoolPlan, Pools, touched

SHAPE = WeightsShape(1, 1, 2, experts=8, top_k=2, normalised=True, rope_theta=1e4, norm_epsilon=1e-6, eos=-1)


def routed(*layers):
    """Routings of two layers, each [tokens, 2]."""
    made = []
    for layer in layers:
        chosen = torch.tensor(layer)
        made.append(ExpertRouting(chosen, chosen, torch.full(chosen.shape, 0.5)))
    return made


def members(pools, sequence=0):
    return [row.nonzero()[:, 0].tolist() for row in pools.masks()[sequence]]


def pools_of(**plan):
    return Pools(PoolPlan(**plan), SHAPE, layers=2, sequences=4, seed=0)


EACH = torch.ones(4, 1, dtype=torch.bool)
FIRST = routed([[0, 1], [2, 3], [4, 5], [6, 7]], [[7, 6], [7, 5], [1, 0], [1, 2]])


def test_the_hottest_of_those_that_share_are_in():
    pools = pools_of(share=0.5, sharing=2)
    pools.record(FIRST, EACH)
    pools.refresh()
    assert members(pools, 0) == members(pools, 1) == [[0, 1, 2, 3], [0, 5, 6, 7]]
    assert members(pools, 2) == [[4, 5, 6, 7], [0, 1, 2, 3]]
    pools.keep([2, 3])
    assert members(pools, 0) == [[4, 5, 6, 7], [0, 1, 2, 3]]


def test_padding_is_not_counted():
    pools = pools_of(share=0.25)
    pools.record(routed([[0, 1], [6, 7]] * 4, [[2, 3], [6, 7]] * 4), torch.tensor([[True, False]] * 4))
    pools.refresh()
    assert members(pools, 3) == [[0, 1], [2, 3]]


@pytest.mark.parametrize(("memory", "expected"), [(1.0, [0, 1]), (0.01, [6, 7])])
def test_memory_decides_between_old_and_new(memory, expected):
    pools = pools_of(share=0.25, memory=memory)
    for _ in range(2):
        pools.record(routed([[0, 1]] * 4, [[0, 1]] * 4), EACH)
        pools.refresh()
    pools.record(routed([[6, 7]] * 4, [[6, 7]] * 4), EACH)
    pools.refresh()
    assert members(pools)[0] == expected


def test_layers_compete_where_the_share_is_of_all():
    pools = pools_of(share=0.25, scope="all", memory=1.0)
    pools.record(routed([[0, 1]] * 4, [[0, 1]] * 4), EACH)
    pools.record(routed([[2, 3]] * 4, [[0, 1]] * 4), EACH)
    pools.refresh()
    assert [len(row) for row in members(pools)] == [2, 2]
    pools.record(routed([[0, 1]] * 4, [[4, 5]] * 4), EACH)
    pools.refresh()
    assert members(pools) == [[0, 1], [0, 1]]


def test_random_pools_change_have_their_size_and_are_seeded():
    pools, again = pools_of(share=0.5, kind="random"), pools_of(share=0.5, kind="random")
    seen = []
    for _ in range(5):
        for one in (pools, again):
            one.record(FIRST, EACH)
            one.refresh()
        assert torch.equal(pools.masks(), again.masks())
        assert (pools.masks().sum(-1) == 4).all()
        seen.append(members(pools))
    assert len({str(row) for row in seen}) > 1


def test_experts_that_a_pass_reads_are_counted_by_pool():
    assert touched(FIRST, torch.tensor([0, 0, 1, 1]), 8) == (4 + 3 + 4 + 3) / 2
    assert touched(FIRST, torch.arange(4), 8) == 4
