"""A training run: its model, its data, and a step of learning."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from random import Random

import torch
from tokenizers import Tokenizer

from serving.lab.corpus.corpus import Document, conversations, documents
from serving.lab.training.batches import TokenBatch, TokenStream, batches, encode, segments
from serving.lab.training.losses import cross_entropy, router_loss, thinned, used
from serving.lab.training.model import TrainedModel, initialise
from serving.lab.training.optimiser import optimisers
from serving.lab.training.settings import Settings, is_long, rate_at
from serving.topics.names import NAMES

HELD_OUT_PARTS = 8
UNUSED = 0.02  # of an even share
REMEMBERED = 16  # steps, about, over which the experts' use is taken together


class TrainingRun:
    """A training run: what it has learnt so far, and how to take the next step.

    It begins with random weights, or with those of a model that has `learnt` something.
    """

    def __init__(self, settings: Settings, tokenizer: Tokenizer, learnt: TrainedModel | None = None) -> None:
        torch.set_num_threads(1)  # the threads share the parts of a step instead, and seldom wait for each other
        self.settings, self.tokenizer, shape = settings, tokenizer, settings.shape
        self.pool = ThreadPoolExecutor(settings.threads)
        self.model = learnt or initialise(TrainedModel(shape), settings.seed)
        self.weights = list(self.model.parameters())
        self.tokens = 0  # that it has learnt from
        self.narrow = torch.bfloat16 if settings.narrow else torch.float32
        self.held_out = list(islice(self._batches("held-out", 1.0, settings.seed), HELD_OUT_PARTS))
        self.optimisers = optimisers(self.model, (settings.matrix_rate, settings.other_rate), self.pool)
        self.used = torch.full((shape.layers, len(NAMES), shape.experts), 1 / len(NAMES) / shape.experts)
        self.usual = self._batches("train", settings.alone, settings.seed)
        talk = self._encoded(conversations(settings.seed, "train"))
        long = segments(talk, settings.long_tokens, 0.0, Random(settings.seed))
        self.long = batches(long, settings.long_tokens)

    def _batches(self, split: str, alone: float, seed: int) -> Iterator[TokenBatch]:
        stream = self._encoded(documents(seed, split, self.settings.asked))
        runs = segments(stream, self.settings.segment, alone, Random(seed))
        return batches(runs, self.settings.part_tokens)

    def _encoded(self, documents_: Iterable[Document]) -> Iterator[TokenStream]:
        return (encode(self.tokenizer, document) for document in documents_)

    def step(self, step: int) -> float:
        """Take this step of training; return the loss before it."""
        parts = self.parts(step)
        results = list(self.pool.map(self._part, parts))
        self.tokens += sum(len(part.ids) for part in parts)
        for weights, *grads in zip(self.weights, *(grads for _, grads, _ in results), strict=True):
            weights.grad = sum(grads[1:], start=grads[0]).div_(len(grads))
        self.used.lerp_(torch.stack([used for _, _, used in results]).mean(0), 1 / REMEMBERED)
        torch.nn.utils.clip_grad_norm_(self.weights, self.settings.clip)
        self._update(rate_at(step, self.settings))
        return sum(loss for loss, _, _ in results) / len(results)

    def parts(self, step: int) -> list[TokenBatch]:
        """Return what this step reads, next after the steps before it."""
        long = self.settings.parts // 2 if is_long(step, self.settings) else 0
        return list(islice(self.long, long)) + list(islice(self.usual, self.settings.parts - long))

    def _part(self, batch: TokenBatch) -> tuple[float, tuple[torch.Tensor, ...], torch.Tensor]:
        """Loss, gradients and use of the experts for one part of a step."""
        hidden, routings = self.model(batch.ids, batch.lengths)
        loss = cross_entropy(hidden, self.model.embedding, batch.targets, thinned(batch.weights), self.narrow)
        weights = (self.settings.balance, self.settings.same)
        routers = router_loss(routings, batch.topics, self.used, weights)
        grads = torch.autograd.grad(loss + routers, self.weights)
        return loss.item(), grads, torch.stack([used(routing, batch.topics, len(NAMES)) for routing in routings])

    def _update(self, rate: float) -> None:
        highest = (self.settings.matrix_rate, self.settings.other_rate)
        for optimiser, most in zip(self.optimisers, highest, strict=True):
            for group in optimiser.param_groups:
                group["lr"] = rate * most
            optimiser.step()

    def measure(self) -> float:
        """Measure the loss on held-out documents, in nats a token."""
        return sum(self.pool.map(self._measure_part, self.held_out)) / len(self.held_out)

    def _measure_part(self, batch: TokenBatch) -> float:
        with torch.no_grad():
            hidden, _ = self.model(batch.ids, batch.lengths)
            return float(cross_entropy(hidden, self.model.embedding, batch.targets, batch.weights))

    def load(self) -> tuple[float, int]:
        """Return the busiest expert's load in even shares, and how many experts have next to nothing lately."""
        shares = self.used.sum(1) * self.settings.shape.experts
        return float(shares.max()), int((shares < UNUSED).sum())
