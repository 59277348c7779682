"""The gradients of a step's parts, worked out by processes that share the weights.

Threads would do, but for Python's lock: two of them took a quarter longer than two processes.
"""

import signal
from contextlib import suppress
from math import prod
from mmap import mmap
from multiprocessing import get_context
from multiprocessing.connection import Connection
from weakref import finalize

import torch
from tokenizers import Tokenizer

from serving.lab.training.batches import TokenBatch
from serving.lab.training.losses import cross_entropy, router_loss, thinned, used
from serving.lab.training.model import TrainedModel
from serving.lab.training.reading import PartReading
from serving.lab.training.settings import Settings
from serving.topics.names import NAMES
from serving.usage_error import CommandFailed

FLOAT = 4  # bytes


def shared(*size: int) -> torch.Tensor:
    """Return zeros in memory that processes share which are forked later. It is nobody's file: containers often have
    but 64 MiB for those that torch would take."""
    return torch.frombuffer(mmap(-1, prod(size) * FLOAT), dtype=torch.float32).view(size)


class PartGradients:
    """The weights, and of each part of a step its loss, gradients and use of the experts: in memory that is shared."""

    def __init__(self, model: TrainedModel, settings: Settings) -> None:
        shape, parts = settings.shape, settings.parts
        self.model, self.settings = model, settings
        self.narrow = torch.bfloat16 if settings.narrow else torch.float32
        self.weights = list(model.parameters())
        for weights in self.weights:
            weights.data = shared(*weights.shape).copy_(weights.data)
        self.grads = [shared(parts, *weights.shape) for weights in self.weights]
        self.losses = shared(parts)
        uses = (shape.layers, len(NAMES), shape.experts)
        self.used = shared(*uses).fill_(1 / len(NAMES) / shape.experts)  # over the last steps
        self.use = shared(parts, *uses)

    def work_out(self, part: int, batch: TokenBatch) -> None:
        """Work out what one part of a step gives."""
        hidden, routings = self.model(batch.ids, batch.lengths, self.narrow)
        loss = cross_entropy(hidden, self.model.embedding, batch.targets, thinned(batch.weights), self.narrow)
        weights = (self.settings.balance, self.settings.same)
        routers = router_loss(routings, batch.topics, self.used, weights)
        for shared, grad in zip(self.grads, torch.autograd.grad(loss + routers, self.weights), strict=True):
            shared[part] = grad
        self.losses[part] = loss.detach()
        torch.stack([used(routing, batch.topics, len(NAMES)) for routing in routings], out=self.use[part])


class GradientWorkers:
    """Processes that work out the parts' gradients, each those of every so many parts. They begin with the first step,
    and end with this process, or when nobody has them any more."""

    def __init__(self, made: PartGradients, tokenizer: Tokenizer) -> None:
        self._made, self._tokenizer = made, tokenizer
        self._lines: list[Connection] = []

    def work_out(self, step: int) -> int:
        """Have all parts of this step worked out; return how many tokens they read. Steps follow one another.

        Raise CommandFailed if one of the processes has ended.
        """
        if not self._lines:
            self._begin(step)
        try:
            for line in self._lines:
                line.send(step)
            return sum(line.recv() for line in self._lines)
        except (EOFError, OSError) as error:
            raise CommandFailed(
                "A process of the training has ended, perhaps for want of memory. --resume goes on from the last"
                " checkpoint, if there is one."
            ) from error

    def _begin(self, first: int) -> None:
        context, parts = get_context("fork"), range(self._made.settings.parts)
        for worker in range(min(self._made.settings.threads, len(parts))):
            line, theirs = context.Pipe()
            self._lines.append(line)
            mine = parts[worker :: self._made.settings.threads]
            context.Process(target=_work, args=(self._lines[:], theirs, first, mine, self), daemon=True).start()
            theirs.close()
        finalize(self, _hang_up, self._lines)

    def serve(self, line: Connection, first: int, parts: range) -> None:
        """Work these parts out, a step whenever one is asked for; what the next one reads is made before it is."""
        readings = {part: PartReading(self._made.settings, self._tokenizer, part) for part in parts}
        for step in range(first):  # that a run which is resumed has taken
            _taken(readings, step)
        batches, step = _taken(readings, first), first
        while line.recv() == step:
            for part, batch in batches.items():
                self._made.work_out(part, batch)
            line.send(sum(len(batch.ids) for batch in batches.values()))
            step += 1
            batches = _taken(readings, step)


def _taken(readings: dict[int, PartReading], step: int) -> dict[int, TokenBatch]:
    return {part: reading.take(step) for part, reading in readings.items()}


def _work(others: list[Connection], line: Connection, first: int, parts: range, workers: GradientWorkers) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's: it hangs up when it has saved
    _hang_up(others)
    with suppress(EOFError):  # the run has ended
        workers.serve(line, first, parts)


def _hang_up(lines: list[Connection]) -> None:
    for line in lines:
        line.close()
