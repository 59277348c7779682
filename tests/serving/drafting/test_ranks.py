"""Is the tree law true of the bundled token model: how often is a draft's second, third and fourth candidate right?"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from device_model.step import DraftShape
from device_model.tree_law import FALL, SECOND, accepted_of
from serving.drafting.attention import KeyValues, PassTokens
from serving.drafting.drafter import DraftContext, Drafter, drafter
from serving.drafting.forward import Passed, forward, logits
from serving.lab.self_speculation.texts import Texts
from serving.scenario.scenario import BUNDLED_MODEL

TEXTS, TOKENS, ENDS = 60, 60, (0, 2)
POOLS = (4, 8, 16, 32, 64)


class Answer(NamedTuple):
    """A prompt's tokens and those of its greedy answer, of which the first is at `begin`, with keys and values, and how
    often each expert was wanted for it [layers, experts]."""

    ids: list[int]
    begin: int
    kv: KeyValues
    wanted: NDArray[np.int64]


def answers(model: Drafter) -> Iterator[Answer]:
    layers, experts = len(model.target.layers), len(model.target.layers[0].router)
    for prompt in Texts(BUNDLED_MODEL).held_out(TEXTS, 0):
        ids, kv, wanted = list(prompt), model.read(prompt[:-1]), np.zeros((layers, experts), dtype=np.int64)
        while len(ids) - len(prompt) < TOKENS and (ids == prompt or ids[-1] not in ENDS):
            passed = forward(model.target, [PassTokens(np.array(ids[-1:]), *place(len(ids) - 1, kv))])
            kv = kv.then(passed.kv)
            np.add.at(wanted, (np.arange(layers)[:, None], passed.wanted[0]), 1)
            ids.append(int(logits(model.target, passed.hidden)[0].argmax()))
        yield Answer(ids, len(prompt), kv, wanted)


def place(position: int, kv: KeyValues) -> tuple[NDArray[np.int64], KeyValues, int, NDArray[np.bool_]]:
    return np.array([position]), kv, position, np.ones((1, 1), dtype=bool)


def drafted(model: Drafter, answer: Answer, pool: NDArray[np.bool_]) -> Passed:
    """Return a draft's pass over an answer: each token sees what the target has of those before it, and itself."""
    positions = np.arange(answer.begin - 1, len(answer.ids) - 1)
    before = np.arange(answer.kv.keys.shape[1]) < positions[:, None]
    sees = np.concatenate([before, np.eye(len(positions), dtype=bool)], axis=1)
    return forward(model._draft, [PassTokens(np.array(answer.ids)[positions], positions, answer.kv, 0, sees)], pool)


def hottest(found: list[Answer], size: int) -> NDArray[np.bool_]:
    """Return the pool of so many experts of each layer, the ones that were wanted most."""
    most = np.argsort(-sum(answer.wanted for answer in found), axis=1)[:, :size]
    pool = np.zeros(found[0].wanted.shape, dtype=bool)
    np.put_along_axis(pool, most, True, axis=1)
    return pool


def ranks(model: Drafter, found: list[Answer], size: int) -> NDArray[np.float64]:
    """Return the shares of the target's tokens by their rank among the draft's, whose pool has so many experts of each
    layer, the ones that were wanted most."""
    pool = hottest(found, size)
    counts = np.zeros(len(model.target.embedding))
    for answer in found:
        scores = logits(model._draft, drafted(model, answer, pool).hidden)
        right = scores[np.arange(len(scores)), answer.ids[answer.begin :]]
        np.add.at(counts, (scores > right[:, None]).sum(axis=1), 1)
    shares: NDArray[np.float64] = counts / counts.sum()
    return shares


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_other_candidates_are_right_as_often_as_the_tree_law_has_it() -> None:
    model = drafter(str(BUNDLED_MODEL), "elastic")
    found = list(islice(answers(model), TEXTS))
    shares = [ranks(model, found, size) for size in POOLS]
    likeliest = [float(each[0]) for each in shares]
    assert likeliest == sorted(likeliest) and likeliest[0] < 0.5 and likeliest[-1] > 0.9
    others = np.array([each[1:4] / (each[0] * (1 - each[0])) for each in shares])
    law = SECOND * np.arange(1, 4) ** -FALL
    assert others[:-1].mean(axis=0) == pytest.approx(law, rel=0.3)


CHAIN = DraftShape(5, 1, 5)
TREES = [DraftShape(*tree) for tree in ((11, 1, 11), (5, 4, 10), (5, 8, 20), (3, 4, 8), (8, 4, 16), (11, 11, 19))]
TREE_TEXTS, TREE_POOLS, TOGETHER = 40, (10, 26, 64), 16


def accepted(model: Drafter, places: list[DraftContext], shape: DraftShape, pool: NDArray[np.bool_]) -> float:
    """Return how many drafts of a tree are accepted at a place on average."""
    parts = (places[at : at + TOGETHER] for at in range(0, len(places), TOGETHER))
    return float(np.mean([count for part in parts for count in model.draft(part, shape, pool).accepted]))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_trees_have_as_many_accepted_as_the_law_says_from_a_chain_or_up_to_a_quarter_more() -> None:
    model = drafter(str(BUNDLED_MODEL), "elastic")
    found = list(islice(answers(model), TREE_TEXTS))
    places = [
        DraftContext(answer.kv.upto(at), answer.ids[at], answer.ids[at + 1 :])
        for answer in found
        for at in range(answer.begin, len(answer.ids) - TREES[0].depth - 1, 3)
    ]
    for pool in (hottest(found, size) for size in TREE_POOLS):
        alpha = accepted(model, places, CHAIN, pool) / CHAIN.depth
        for tree in TREES:
            assert 0.95 < accepted(model, places, tree, pool) / accepted_of(alpha, CHAIN, tree) < 1.25
