"""What a training step reads: documents as tokens, cut and joined into segments, segments joined into a batch.

A token attends only to its own segment. Most segments are one document, as a chat starts afresh; the others are
documents one after another, up to a limit, so that long contexts are learnt too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

import torch
from tokenizers import Tokenizer

from serving.lab.corpus.corpus import Document
from serving.lab.training.tokenizer import TEXT, rendered
from serving.topics.names import NAMES

ASKED = 0.25  # what a token weighs in the loss that users and systems write; an assistant's and a plain text's weigh 1


@dataclass(frozen=True, slots=True)
class TokenStream:
    """A run of tokens, what each weighs as a target, and the topic that it is of, by its place in `NAMES`."""

    ids: list[int]
    weights: list[float]
    topics: list[int]


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Segments end to end: tokens, the token after each, what predicting it weighs, topics, and segments' lengths."""

    ids: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    topics: torch.Tensor
    lengths: list[int]


def encode(tokenizer: Tokenizer, document: Document) -> TokenStream:
    """Return the tokens of a document."""
    ids: list[int] = []
    weights: list[float] = []
    for role, text in rendered(document):
        new = tokenizer.encode(text, add_special_tokens=False).ids
        ids += new
        weights += [1.0 if role in ("assistant", TEXT) else ASKED] * len(new)
    return TokenStream(ids, weights, [NAMES.index(document.topic)] * len(ids))


def segments(stream: Iterable[TokenStream], limit: int, alone_share: float, rng: Random) -> Iterator[TokenStream]:
    """Yield runs of at most `limit` tokens: one document in so large a share of them, in the others as many as fit."""
    ids: list[int] = []
    weights: list[float] = []
    topics: list[int] = []
    alone = rng.random() < alone_share
    for tokens in stream:
        ids, weights, topics = ids + tokens.ids, weights + tokens.weights, topics + tokens.topics
        if alone or len(ids) >= limit:
            yield TokenStream(ids[:limit], weights[:limit], topics[:limit])
            ids, weights, topics, alone = [], [], [], rng.random() < alone_share


def batches(runs: Iterable[TokenStream], tokens: int) -> Iterator[TokenBatch]:
    """Batches of exactly `tokens` tokens; the last run of each is cut to fit."""
    taken: list[TokenStream] = []
    missing = tokens
    for run in runs:
        taken.append(TokenStream(run.ids[:missing], run.weights[:missing], run.topics[:missing]))
        missing -= len(taken[-1].ids)
        if not missing:
            yield batch_of(taken)
            taken, missing = [], tokens


def batch_of(runs: list[TokenStream]) -> TokenBatch:
    """One batch of these runs; a run's last token has no target."""
    ids = torch.tensor([i for run in runs for i in run.ids])
    targets = torch.tensor([i for run in runs for i in (*run.ids[1:], 0)])
    weights = torch.tensor([w for run in runs for w in (*run.weights[1:], 0.0)])
    topics = torch.tensor([t for run in runs for t in run.topics])
    return TokenBatch(ids, targets, weights, topics, [len(run.ids) for run in runs])
