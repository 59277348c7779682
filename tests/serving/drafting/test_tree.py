"""Is a draft's tree the best that its width, depth and budget allow, and is the right path found in it?"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from device_model.step import DraftShape
from serving.drafting.tree import ROOT, DraftTree

VOCABULARY = 7
shapes = st.builds(
    lambda d, w, more: DraftShape(d, w, d + more), st.integers(1, 4), st.integers(1, 8), st.integers(0, 12)
)


def chances(seed: int, rows: int) -> np.ndarray:
    draws = np.random.default_rng(seed).dirichlet(np.full(VOCABULARY, 0.4), rows)
    return np.log(draws + 1e-9).astype(np.float32)


def grown(shape: DraftShape, seed: int = 0) -> DraftTree:
    tree = DraftTree(5, shape)
    for level in range(shape.depth):
        tree.grow(chances(seed + level, len(tree.frontier)))
    return tree


@given(shapes, st.integers(0, 10_000))
def test_a_tree_keeps_to_its_width_depth_and_budget_and_verifies_whole_paths(shape, seed):
    tree = grown(shape, seed)
    levels = np.bincount(tree.levels)
    assert len(levels) == shape.depth + 1 and levels.max() <= max(1, shape.width)
    nodes = tree.verified()
    assert nodes[0] == ROOT and len(nodes) == len(set(nodes)) <= shape.verify_tokens + 1
    assert len(nodes) == min(len(tree.tokens), shape.verify_tokens + 1)
    assert all(tree.parents[node] in nodes for node in nodes[1:])
    sees = tree.sees(nodes, nodes)
    assert (sees.sum(axis=1) == 1 + np.array([tree.levels[node] for node in nodes])).all()
    siblings = list(zip(tree.parents, tree.tokens, strict=True))
    assert len(siblings) == len(set(siblings)), "no token stands twice behind the same one"


@given(st.integers(1, 6), st.integers(0, 1000))
def test_of_width_one_it_is_a_chain_of_the_likeliest(depth, seed):
    tree = grown(DraftShape(depth, 1, depth), seed)
    likeliest = [int(chances(seed + level, 1).argmax()) for level in range(depth)]
    assert tree.tokens == [5, *likeliest] and tree.parents == list(range(-1, depth))


@given(shapes, st.integers(0, 10_000), st.lists(st.integers(0, VOCABULARY - 1), max_size=6))
def test_what_is_accepted_is_a_path_of_the_text_and_no_longer_one_is_there(shape, seed, text):
    tree = grown(shape, seed)
    nodes = tree.verified()
    said = {node: VOCABULARY for node in nodes}  # what stands in no tree
    found = tree.accepted(nodes[1:], said, text)
    paths = {()}
    for node in nodes[1:]:
        path, at = [], node
        while at != ROOT:
            path.insert(0, tree.tokens[at])
            at = tree.parents[at]
        paths.add(tuple(path))
    assert tuple(text[:found]) in paths and tuple(text[: found + 1]) not in paths - {tuple(text[:found])}


def test_behind_the_text_what_the_target_says_decides():
    tree = grown(DraftShape(2, 1, 2), 3)
    first, second = tree.tokens[1:]
    assert tree.accepted([1, 2], {0: first, 1: second, 2: 0}, []) == 2
    assert tree.accepted([1, 2], {0: first, 1: second + 1, 2: 0}, []) == 1
    assert tree.accepted([1, 2], {0: first, 1: second, 2: 0}, [first + 1]) == 0
