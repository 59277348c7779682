"""Trains what is ours of the classifier: the last layer's low-rank changes, and the head.

What lies below never changes, so its states are computed once. The same prompts, seed and machine give the same
weights: everything is drawn from the seed, and torch computes on one core.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch
import torch.nn.functional as F

from serving.lab.topic_training.encoder import Encoder, Layer, model_folder, pooled
from serving.lab.topic_training.pack import packed
from serving.topics.classifier import Classifier
from serving.topics.encoder import LINEAR, WIDTH, Tensors
from serving.topics.labelled_prompts import LabelledPrompt
from serving.topics.names import NAMES
from serving.topics.prompt_reader import PromptReader

# Chosen on prompts that the other writer wrote; README.md has the figures.
RANK = 16
EPOCHS, BATCH = 6, 32
RATE, WARM_UP, DECAY = 2e-3, 0.1, 0.05
DROPPED, SMOOTHED, LONGEST_GRADIENT = 0.1, 0.05, 1.0


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt's states [tokens, width] below the last layer, and its topic's number."""

    states: torch.Tensor
    topic: int


def examples(prompts: Sequence[LabelledPrompt], reader: PromptReader, encoder: Encoder) -> list[Example]:
    """Return the prompts as the last layer meets them."""
    found = []
    with torch.no_grad():
        for prompt in prompts:
            states = encoder.states([reader.read(prompt.prompt)], len(encoder.layers) - 1)
            found.append(Example(states, NAMES.index(prompt.topic)))
    return found


def train(prompts: Sequence[LabelledPrompt], seed: int) -> Tensors:
    """Tensors for a `Classifier`, learnt from the prompts."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    encoder = Encoder(model_folder())
    learnt = _start(encoder.layers[-1])
    trainer = _Trainer(encoder.layers[-1], learnt, examples(prompts, PromptReader(), encoder), Random(seed))
    for epoch in range(EPOCHS):
        started_s = time.monotonic()
        loss = trainer.epoch()
        took = f"{time.monotonic() - started_s:.0f} s"
        print(f"Epoch {epoch + 1} of {EPOCHS}: loss {loss:.3f}, {took}", file=sys.stderr, flush=True)
    return packed(encoder, learnt)


def accuracy(tensors: Tensors, prompts: Sequence[LabelledPrompt]) -> float:
    """Return the share of the prompts that get their own topic with these tensors."""
    found = Classifier(PromptReader(), tensors).classify([prompt.prompt for prompt in prompts])
    return sum(topic.name == prompt.topic for topic, prompt in zip(found, prompts, strict=True)) / len(prompts)


def _start(layer: Layer) -> dict[str, torch.Tensor]:
    """Return changes that change nothing yet, and a head that prefers no topic."""
    learnt = {"head.weight": torch.zeros(len(NAMES), WIDTH), "head.bias": torch.zeros(len(NAMES))}
    for name in LINEAR:
        rows, columns = layer.linear[name][0].shape
        learnt[f"{name}.left"] = torch.zeros(rows, RANK)
        learnt[f"{name}.right"] = torch.randn(RANK, columns) / columns**0.5
    for tensor in learnt.values():
        tensor.requires_grad_()
    return learnt


class _Trainer:
    """One pass over the examples after the other."""

    def __init__(self, layer: Layer, learnt: dict[str, torch.Tensor], examples: Sequence[Example], rng: Random) -> None:
        self._layer, self._learnt, self._rng = layer, learnt, rng
        self._examples = list(examples)
        batches = -(-len(self._examples) // BATCH)
        self._optimiser = torch.optim.AdamW(learnt.values(), RATE, weight_decay=DECAY)
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimiser, RATE, total_steps=EPOCHS * batches, pct_start=WARM_UP
        )

    def epoch(self) -> float:
        """Train for a pass in a new order; return its mean loss."""
        self._rng.shuffle(self._examples)
        cut = [self._examples[i : i + BATCH] for i in range(0, len(self._examples), BATCH)]
        return sum(self._step(batch) * len(batch) for batch in cut) / len(self._examples)

    def _step(self, batch: Sequence[Example]) -> float:
        lengths = [len(example.states) for example in batch]
        states = F.dropout(torch.cat([example.states for example in batch]), DROPPED)
        vectors = pooled(self._layer.changed(self._learnt)(states, lengths), lengths)
        scores = F.linear(F.dropout(vectors, DROPPED), self._learnt["head.weight"], self._learnt["head.bias"])
        wanted = torch.tensor([example.topic for example in batch])
        loss = F.cross_entropy(scores, wanted, label_smoothing=SMOOTHED)
        self._optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._learnt.values(), LONGEST_GRADIENT)
        self._optimiser.step()
        self._schedule.step()
        return float(loss.detach())
