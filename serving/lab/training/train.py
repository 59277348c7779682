"""Trains a model on the corpus: the loop, its data and its checkpoints."""

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import count, islice
from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer

from serving.lab.corpus.corpus import documents
from serving.lab.training.batches import TokenBatch, batches, encode, segments
from serving.lab.training.export import save_model
from serving.lab.training.losses import cross_entropy, router_loss, used
from serving.lab.training.model import TrainedModel, initialise
from serving.lab.training.optimiser import optimisers
from serving.lab.training.progress import TrainingProgress
from serving.lab.training.settings import Settings, TrainingBudget, rate_at
from serving.lab.training.tokenizer import save_tokenizer

CHECKPOINT_S = 180.0
MEASURES = 25  # times that the held-out loss is measured in a run
HELD_OUT_PARTS = 8
UNFINISHED = "unfinished"
REMEMBERED = 16  # steps, about, over which the experts' use is taken together


class TrainingRun:
    """A training run: what it has learnt so far, and how to take the next step."""

    def __init__(self, settings: Settings, tokenizer: Tokenizer) -> None:
        torch.set_num_threads(1)  # the threads share the parts of a step instead, and seldom wait for each other
        self.settings, self.tokenizer = settings, tokenizer
        self.pool = ThreadPoolExecutor(settings.threads)
        self.model = initialise(TrainedModel(settings.shape), settings.seed)
        self.weights = list(self.model.parameters())
        self.optimisers = optimisers(self.model, (settings.matrix_rate, settings.other_rate), self.pool)
        self.used = torch.full((settings.shape.layers, settings.shape.experts), 1 / settings.shape.experts)
        self.usual = self._batches("train", settings.segment, settings.alone)
        self.long = self._batches("train", settings.part_tokens, 0.0)
        self.held_out = list(islice(self._batches("held-out", settings.segment, 1.0), HELD_OUT_PARTS))

    def _batches(self, split: str, limit: int, alone: float) -> Iterator[TokenBatch]:
        seed = self.settings.seed if alone else self.settings.seed + 1
        stream = (encode(self.tokenizer, document) for document in documents(seed, split, self.settings.machine))
        return batches(segments(stream, limit, alone, Random(seed)), self.settings.part_tokens)

    def step(self, share: float) -> float:
        """One step of training at this share of the run; the loss before it."""
        long = self.settings.parts // 2 if share >= self.settings.long_from else 0
        parts = list(islice(self.long, long)) + list(islice(self.usual, self.settings.parts - long))
        results = list(self.pool.map(self._part, parts))
        for weights, *grads in zip(self.weights, *(grads for _, grads, _ in results), strict=True):
            weights.grad = torch.stack(grads).mean(0)
        self.used.lerp_(torch.stack([used for _, _, used in results]).mean(0), 1 / REMEMBERED)
        torch.nn.utils.clip_grad_norm_(self.weights, self.settings.clip)
        self._update(rate_at(share, self.settings))
        return sum(loss for loss, _, _ in results) / len(results)

    def _part(self, batch: TokenBatch) -> tuple[float, tuple[torch.Tensor, ...], torch.Tensor]:
        """Loss, gradients and use of the experts for one part of a step."""
        hidden, routings = self.model(batch.ids, batch.lengths)
        loss = cross_entropy(hidden, self.model.embedding, batch.targets, batch.weights, torch.bfloat16)
        routers = router_loss(routings, self.used, self.settings.balance)
        grads = torch.autograd.grad(loss + routers, self.weights)
        return loss.item(), grads, torch.stack([used(routing) for routing in routings])

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
        """Return the busiest expert's load in uniform shares, and how many experts had nothing in the last step."""
        return float(self.used.max()) * self.settings.shape.experts, int((self.used == 0).sum())


def train(run: TrainingRun, budget: TrainingBudget, folder: Path) -> bool:
    """Train until the budget is used, or until Ctrl-C; whether it was finished.

    What has been learnt so far goes to `folder`/unfinished every few minutes; a finished run moves it to `folder`.
    """
    progress = TrainingProgress(run.settings.parts * run.settings.part_tokens)
    finished = True
    try:
        _train(run, budget, progress, folder / UNFINISHED)
    except KeyboardInterrupt:
        finished = False
    _save(run, progress, folder / UNFINISHED, finished)
    if finished:
        shutil.copytree(folder / UNFINISHED, folder, dirs_exist_ok=True)
        shutil.rmtree(folder / UNFINISHED)
    return finished


def _train(run: TrainingRun, budget: TrainingBudget, progress: TrainingProgress, folder: Path) -> None:
    saved_s, measured = time.monotonic(), -1
    for step in count():
        share = budget.share(step)
        if share >= 1:
            break
        if int(share * MEASURES) > measured:
            measured = int(share * MEASURES)
            progress.held_out = run.measure()
        if progress.step(step, run.step(share), *run.load()):
            progress.say(budget.share(step + 1))
        if time.monotonic() - saved_s > CHECKPOINT_S:
            _save(run, progress, folder, finished=False)
            saved_s = time.monotonic()
    progress.held_out = run.measure()
    progress.end()


def _save(run: TrainingRun, progress: TrainingProgress, folder: Path, finished: bool) -> None:
    """Everything that a checkpoint has, and the log."""
    folder.mkdir(parents=True, exist_ok=True)
    save_model(run.model, folder)
    save_tokenizer(run.tokenizer, run.settings.shape.context, folder)
    progress.write(folder, asdict(run.settings) | {"finished": finished})
