"""Draft and verify: a chain of draft tokens for each sequence of a batch, judged by the target in one pass."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from serving.lab.self_speculation.draft import DraftModel
from serving.lab.self_speculation.model import Pass, forward, logits, prefill
from serving.lab.self_speculation.pools import Pools, touched
from serving.lab.self_speculation.rejection import distribution, generator, judge, sample
from serving.lab.self_speculation.weights import ModelWeights


class DecodePlan(NamedTuple):
    """How to decode."""

    depth: int = 5  # draft tokens a step; 0 decodes plainly
    new_tokens: int = 48  # most tokens of an answer
    temperature: float = 0.0
    seed: int = 0
    stop: bool = True  # at the model's end-of-sequence token


@dataclass
class DecodedAnswer:
    """What became of a prompt."""

    tokens: list[int] = field(default_factory=list)  # the answer, without the token that ends it
    accepted: list[int] = field(default_factory=list)  # of each step, how many of its draft tokens
    ended: bool = False


class DecodeRun(NamedTuple):
    """Answers in the order of the prompts, and what drafting read."""

    answers: list[DecodedAnswer]
    experts_read: float  # (layer, expert) pairs of a draft pass, averaged over passes; by pool if there is one
    live: float  # sequences that share a pool, averaged over passes: some end before others


def speculate(target: ModelWeights, draft: DraftModel, prompts: list[list[int]], plan: DecodePlan) -> DecodeRun:
    """Decode all prompts at once. The text is the target's, whatever the draft is."""
    with torch.inference_mode():
        batch = _Batch(target, draft, prompts, plan)
        while batch.rows:
            batch.step()
    return batch.result()


class _Batch:
    """The sequences that are still decoded, and the state that they share."""

    def __init__(self, target: ModelWeights, draft: DraftModel, prompts: list[list[int]], plan: DecodePlan) -> None:
        self.target, self.draft, self.plan = target, draft, plan
        self.answers = [DecodedAnswer() for _ in prompts]
        self.rows = list(range(len(prompts)))
        # A seed for each prompt: an answer depends on its prompt and number alone, not on the batch.
        self.random = [generator(plan.seed * 1_000_003 + row) for row in self.rows]
        self.pools = _pools(draft, len(prompts), plan.seed)
        self.passes, self.read, self.shared = 0, 0.0, 0.0
        run = Pass()
        room = max(map(len, prompts)) + plan.new_tokens + plan.depth + 1
        self.cache, last = prefill(target, prompts, room, run)
        if self.pools:
            real = torch.arange(max(map(len, prompts))) < self.cache.lengths[:, None]
            self.pools.record(run.routings, real)
            self.pools.refresh()
        self.pending = sample(distribution(last, plan.temperature), self._uniform(1)[:, 0])
        self._take([[token] for token in self.pending.tolist()])

    def step(self) -> None:
        """Carry out a draft phase and its verification."""
        uniform = self._uniform(2 * self.plan.depth + 1)
        tokens, guessed = self._drafted(uniform[:, : self.plan.depth])
        asked = torch.cat([self.pending[:, None], tokens], dim=1)
        said = logits(self.target, forward(self.target, asked, self.cache))
        p = distribution(said, self.plan.temperature)
        accepted, following = judge(p, guessed, tokens, uniform[:, self.plan.depth :])
        self.cache.lengths = self.cache.lengths + accepted + 1
        self.pending = following
        pairs = zip(tokens.tolist(), accepted.tolist(), following.tolist(), strict=True)
        self._take([[*row[:count], after] for row, count, after in pairs])

    def result(self) -> DecodeRun:
        return DecodeRun(self.answers, self.read / max(self.passes, 1), self.shared / max(self.passes, 1))

    def _drafted(self, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Draft tokens [sequences, depth] and the distributions [sequences, depth, vocabulary] they were drawn from.

        What the draft writes to the cache lies behind the verified tokens, and the verification overwrites it.
        """
        start, token = self.cache.lengths, self.pending
        masks = self.pools.masks() if self.pools else None
        tokens, guessed = [token[:, None][:, :0]], [self._nothing()]
        for i in range(self.plan.depth):
            run = Pass(masks, self.draft.exit_after, self.draft.view)
            hidden = forward(self.draft.weights, token[:, None], self.cache, run)
            q = distribution(logits(self.draft.weights, hidden), self.plan.temperature)
            token = sample(q[:, 0], uniform[:, i])
            tokens.append(token[:, None])
            guessed.append(q)
            self.cache.lengths = self.cache.lengths + 1
            self._note(run)
        self.cache.lengths = start
        if self.pools:
            self.pools.refresh()
        return torch.cat(tokens, dim=1), torch.cat(guessed, dim=1)

    def _nothing(self) -> Tensor:
        """Return the distributions of no draft tokens."""
        dtype = torch.float64 if self.plan.temperature else self.target.head.dtype
        return torch.empty(len(self.rows), 0, self.target.head.shape[0], dtype=dtype)

    def _note(self, run: Pass) -> None:
        groups = self.pools.groups if self.pools else torch.arange(len(self.rows))
        if self.pools:
            self.pools.record(run.routings, torch.ones(len(self.rows), 1, dtype=torch.bool))
        self.read += touched(run.routings, groups, self.target.shape.experts)
        self.shared += len(groups) / len(groups.unique())
        self.passes += 1

    def _uniform(self, count: int) -> Tensor:
        """Random numbers in [0, 1) [sequences, count], each row from the generator of its sequence."""
        return torch.stack([torch.rand(count, dtype=torch.float64, generator=self.random[row]) for row in self.rows])

    def _take(self, emitted: list[list[int]]) -> None:
        """Add tokens to the answers, and go on with those that have not ended."""
        for row, tokens in zip(self.rows, emitted, strict=True):
            _extend(self.answers[row], tokens, self.plan, self.target.shape.eos)
        stays = [i for i, row in enumerate(self.rows) if not self.answers[row].ended]
        if len(stays) < len(self.rows):
            self.rows = [self.rows[i] for i in stays]
            self.pending = self.pending[stays]
            self.cache.keep(stays)
            if self.pools:
                self.pools.keep(stays)


def _extend(answer: DecodedAnswer, emitted: list[int], plan: DecodePlan, eos: int) -> None:
    """Add a step's tokens.

    A step in which an answer ends among accepted tokens is not counted: of the draft tokens behind the end nobody knows
    what they would have been worth. One cut by `new_tokens` is counted, since all of its tokens were judged.
    """
    end = emitted.index(eos) if plan.stop and eos in emitted else len(emitted)
    if answer.tokens and plan.depth and end >= len(emitted) - 1:
        answer.accepted.append(len(emitted) - 1)
    answer.tokens = (answer.tokens + emitted[:end])[: plan.new_tokens]
    answer.ended = end < len(emitted) or len(answer.tokens) == plan.new_tokens


def _pools(draft: DraftModel, sequences: int, seed: int) -> Pools | None:
    if draft.pool is None:
        return None
    return Pools(draft.pool, draft.weights.shape, len(draft.weights.layers), sequences, seed)
