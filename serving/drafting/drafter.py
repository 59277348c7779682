"""A token model's draft from beginning to end: trees drafted within a pool, verified, and what it read on the way."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from device_model.specs.file_state import FileState
from device_model.step import DraftShape, IntArray
from serving.drafting.attention import KeyValues, PassTokens
from serving.drafting.forward import Pool, forward, logits
from serving.drafting.schemes import ELASTIC, QUANT, RANDOM
from serving.drafting.tree import DraftTree
from serving.drafting.weights import Floats, Weights, in_four_bits, in_int8, in_slices, load, weights_files
from serving.usage_error import UsageError

DRAFTED_AS: dict[str, Callable[[Floats], Floats]] = {ELASTIC: in_slices, RANDOM: in_slices, QUANT: in_four_bits}
"""The weights that each scheme drafts with."""


class DraftContext(NamedTuple):
    """A sequence before a draft: the target's keys and values of what was computed, the token that comes next, and
    those known to follow upon it."""

    kv: KeyValues
    token: int
    following: list[int]


class ExecutedDraft(NamedTuple):
    """What came of the drafts of several sequences. By pass, the experts `wanted` by routers and those `computed` with
    [tokens, layers, top_k]; by sequence, the experts that verification reads, and how many drafts were accepted."""

    wanted: list[IntArray]
    computed: list[IntArray]
    verified: list[IntArray]
    accepted: list[int]


class Drafter:
    """A token model as target, and as the draft of a scheme."""

    def __init__(self, target: Weights, draft: Weights) -> None:
        self.target, self._draft = target, draft

    def read(self, ids: list[int], kv: KeyValues | None = None) -> KeyValues:
        """Return the target's keys and values of tokens, and of those before them."""
        with _one_thread():
            return self._read(ids, self.empty() if kv is None else kv)

    def _read(self, ids: list[int], kv: KeyValues) -> KeyValues:
        if not ids:
            return kv
        had, new = kv.keys.shape[1], len(ids)
        tokens = PassTokens(np.array(ids), had + np.arange(new), kv, had, np.tri(new, dtype=bool))
        return kv.then(forward(self.target, [tokens]).kv)

    def empty(self) -> KeyValues:
        """Return the keys and values of no tokens."""
        shape = self.target.shape
        none = np.empty((len(self.target.layers), 0, shape.kv_heads, shape.head_dim), dtype=np.float32)
        return KeyValues(none, none)

    def draft(self, contexts: list[DraftContext], shape: DraftShape, pool: Pool | None) -> ExecutedDraft:
        """Draft a tree for each sequence within a `pool` (None: all experts), and verify it."""
        with _one_thread():
            return self._draft_trees(contexts, shape, pool)

    def _draft_trees(self, contexts: list[DraftContext], shape: DraftShape, pool: Pool | None) -> ExecutedDraft:
        trees = [DraftTree(context.token, shape) for context in contexts]
        has, drafted = [context.kv for context in contexts], [list[int]() for _ in contexts]
        wanted, computed = [], []
        for _ in range(shape.depth):
            news = [tree.frontier for tree in trees]
            asked = [
                _tokens(tree, new, [*old, *new], kv, context)
                for tree, new, old, kv, context in zip(trees, news, drafted, has, contexts, strict=True)
            ]
            passed = forward(self._draft, asked, pool)
            chances = _log_softmax(logits(self._draft, passed.hidden))
            wanted.append(passed.wanted)
            computed.append(passed.computed)
            start = 0
            for i, (tree, new) in enumerate(zip(trees, news, strict=True)):
                own = slice(start, start + len(new))
                has[i] = has[i].then(KeyValues(passed.kv.keys[:, own], passed.kv.values[:, own]))
                drafted[i] += new
                tree.grow(chances[own])
                start = own.stop
        return ExecutedDraft(wanted, computed, *self._verify(trees, contexts))

    def _verify(self, trees: list[DraftTree], contexts: list[DraftContext]) -> tuple[list[IntArray], list[int]]:
        nodes = [tree.verified() for tree in trees]
        asked = [
            _tokens(tree, own, own, context.kv, context)
            for tree, own, context in zip(trees, nodes, contexts, strict=True)
        ]
        passed = forward(self.target, asked)
        said = logits(self.target, passed.hidden).argmax(axis=1)
        routes, accepted, start = [], [], 0
        for tree, own, context in zip(trees, nodes, contexts, strict=True):
            rows = slice(start, start + len(own))
            routes.append(passed.wanted[rows])
            after = dict(zip(own, said[rows].tolist(), strict=True))
            accepted.append(tree.accepted(own[1:], after, context.following))
            start = rows.stop
        return routes, accepted


def drafter(token_model: str, scheme: str) -> Drafter:
    """Load the drafter of a token model and a scheme, once for all devices, and again once its weights have changed.
    Raise UsageError for a model of another family, or with weights that don't fall into the groups that are
    quantised."""
    return _drafter(token_model, scheme, tuple(map(FileState.of, weights_files(Path(token_model)))))


@lru_cache(maxsize=4)
def _drafter(token_model: str, scheme: str, states: tuple[FileState | None, ...]) -> Drafter:
    weights = load(Path(token_model))
    try:
        return Drafter(weights.with_matrices(in_int8), weights.with_matrices(DRAFTED_AS[scheme]))
    except ValueError as error:
        raise UsageError(
            f"The weights in {token_model} can't be made those of a draft. {error}", "token_model"
        ) from error


def _one_thread() -> AbstractContextManager[Any]:
    """Keep BLAS to one thread: matrices are small, and threads that wait for each other take longer on a busy
    machine."""
    limited: AbstractContextManager[Any] = _pools().limit(limits=1, user_api="blas")
    return limited


@lru_cache(maxsize=1)
def _pools() -> ThreadpoolController:
    return ThreadpoolController()


def _tokens(tree: DraftTree, new: list[int], among: list[int], kv: KeyValues, context: DraftContext) -> PassTokens:
    """Return nodes of a tree as tokens of a pass, which see of the nodes `among` those that they descend from."""
    length = context.kv.keys.shape[1]
    ids, levels = (np.array([of[node] for node in new]) for of in (tree.tokens, tree.levels))
    return PassTokens(ids, length + levels, kv, length, tree.sees(new, among))


def _log_softmax(scores: Floats) -> Floats:
    shifted: Floats = scores - scores.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted
