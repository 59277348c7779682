"""A training run: its model, and a step of learning."""

from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import torch
from tokenizers import Tokenizer

from serving.lab.training.batches import TokenBatch
from serving.lab.training.gradients import GradientWorkers, PartGradients
from serving.lab.training.losses import cross_entropy
from serving.lab.training.model import TrainedModel, initialise
from serving.lab.training.optimiser import optimisers
from serving.lab.training.reading import usual
from serving.lab.training.settings import Settings, rate_at

HELD_OUT_PARTS = 8
UNUSED = 0.02  # of an even share
REMEMBERED = 16  # steps, about, over which the experts' use is taken together


class TrainingRun:
    """A training run: what it has learnt so far, and how to take the next step.

    It begins with random weights, or with those of a model that has `learnt` something.
    """

    def __init__(self, settings: Settings, tokenizer: Tokenizer, learnt: TrainedModel | None = None) -> None:
        torch.set_num_threads(1)  # processes share the parts of a step instead, and seldom wait for each other
        self.settings, self.tokenizer = settings, tokenizer
        self.model = learnt or initialise(TrainedModel(settings.shape), settings.seed)
        self.weights = list(self.model.parameters())
        self.beginning = [weights.detach().clone() for weights in self.weights]
        self.tokens = 0  # that it has learnt from
        self.made = PartGradients(self.model, settings)
        self.workers = GradientWorkers(self.made, tokenizer)
        self.pool = ThreadPoolExecutor(settings.threads)
        self.held_out = list(islice(usual(settings, tokenizer, "held-out", 1.0, settings.seed), HELD_OUT_PARTS))
        self.optimisers = optimisers(self.model, (settings.matrix_rate, settings.other_rate), self.pool)

    @property
    def used(self) -> torch.Tensor:
        """Return the use of the experts over the last steps: [layers, topics, experts]."""
        return self.made.used

    def step(self, step: int) -> float:
        """Take this step of training; return the loss before it."""
        self.tokens += self.workers.work_out(step)
        for weights, grads in zip(self.weights, self.made.grads, strict=True):
            weights.grad = grads.mean(0)
        self.used.lerp_(self.made.use.mean(0), 1 / REMEMBERED)
        torch.nn.utils.clip_grad_norm_(self.weights, self.settings.clip)
        self._update(rate_at(step, self.settings))
        return float(self.made.losses.mean())

    def _update(self, rate: float) -> None:
        highest = (self.settings.matrix_rate, self.settings.other_rate)
        for optimiser, most in zip(self.optimisers, highest, strict=True):
            for group in optimiser.param_groups:
                group["lr"] = rate * most
            optimiser.step()

    def settle(self) -> None:
        """Keep as much as it should of what it has learnt, for weights between those of its beginning and its end: they
        expect held-out text better than either (Wortsman et al., arXiv 2109.01903)."""
        with torch.no_grad():
            for weights, began in zip(self.weights, self.beginning, strict=True):
                weights.copy_(torch.lerp(began, weights, self.settings.kept))

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
