"""The tree of a draft: each pass expands the best nodes of the last level; the best of all are verified.

As EAGLE-2 (Li et al. 2024) has it, which ELMoE-3D's drafts follow (2.2): a path's score is the product of the draft's
probabilities; `width` nodes of a level are kept, and of all levels the `verify_tokens` of highest score.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from device_model.step import DraftShape
from serving.drafting.weights import Floats

ROOT = 0


class DraftTree:
    """The tree of one sequence. Node 0, its root, is the sequence's last token, which no model has read yet."""

    def __init__(self, root: int, shape: DraftShape) -> None:
        self._shape = shape
        self.tokens, self.parents, self.levels = [root], [-1], [0]
        self._scores = [0.0]  # logarithms
        self.frontier = [ROOT]

    def grow(self, log_chances: Floats) -> None:
        """Add a level by the draft's chances [frontier, vocabulary]; the best nodes of it are the next frontier."""
        width = self._shape.width
        best = np.argpartition(-log_chances, width - 1, axis=1)[:, :width] if width < log_chances.shape[1] else None
        ids = np.tile(np.arange(log_chances.shape[1]), (len(log_chances), 1)) if best is None else best
        scores = (
            np.take_along_axis(log_chances, ids, axis=1) + np.array([self._scores[n] for n in self.frontier])[:, None]
        )
        parents, level = self.frontier, self.levels[self.frontier[0]] + 1
        self.frontier = []
        for flat in np.argsort(-scores, axis=None, kind="stable")[:width].tolist():
            row, column = divmod(flat, ids.shape[1])
            self.frontier.append(len(self.tokens))
            self.tokens.append(int(ids[row, column]))
            self.parents.append(parents[row])
            self.levels.append(level)
            self._scores.append(float(scores[row, column]))

    def verified(self) -> list[int]:
        """Return the nodes that are verified, the root first: the best, and so the parents of each."""
        nodes = sorted(range(1, len(self.tokens)), key=lambda node: (-self._scores[node], node))
        return [ROOT, *sorted(nodes[: self._shape.verify_tokens])]

    def sees(self, nodes: Sequence[int], among: Sequence[int]) -> NDArray[np.bool_]:
        """Return which of the nodes `among` each of `nodes` sees: itself, and those that it descends from."""
        place = {node: i for i, node in enumerate(among)}
        seen = np.zeros((len(nodes), len(among)), dtype=bool)
        for row, node in enumerate(nodes):
            while node >= 0:
                seen[row, place[node]] = True
                node = self.parents[node]
        return seen

    def accepted(self, nodes: Sequence[int], said: dict[int, int], following: Sequence[int]) -> int:
        """Return how many tokens of the verified `nodes` are right: those `following` the root, and behind these what
        the target `said` after each node."""
        count, node, children = 0, ROOT, set(nodes)
        while True:
            token = following[count] if count < len(following) else said[node]
            right = [n for n in children if self.parents[n] == node and self.tokens[n] == token]
            if not right:
                return count
            count, node = count + 1, right[0]
