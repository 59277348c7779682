"""Long contexts: what the end of a long conversation costs, and whether what was told first is known there."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

import torch
from transformers import PreTrainedTokenizerFast

from serving.lab.corpus.conversations import TOLD
from serving.lab.corpus.corpus import Document, conversations
from serving.lab.corpus.parts import DialogueTurn
from serving.lab.training.batches import batch_of, encode
from serving.lab.training.model import TrainedModel

COUNT = 40  # conversations
LEAST, MOST = 3000, 4096  # tokens of each
BLOCK = 1024  # tokens, over which figures are taken together
SEED = 1


@dataclass(frozen=True, slots=True)
class LongResult:
    """Of long conversations, in the block of tokens from `start` on: the loss in nats of an assistant's token, and of
    how many facts that were `asked` for again, told at the beginning, the whole answer is the likeliest."""

    start: int
    loss: float
    asked: int
    right: int


def measure(model: TrainedModel, tokenizer: PreTrainedTokenizerFast) -> list[LongResult]:
    """Measure held-out conversations, block by block."""
    losses: list[list[float]] = [[] for _ in range(0, MOST, BLOCK)]
    recalled: list[list[bool]] = [[] for _ in losses]
    for document in islice(_long(tokenizer), COUNT):
        batch = batch_of([encode(tokenizer.backend_tokenizer, document)])
        with torch.no_grad():
            hidden, _ = model(batch.ids, batch.lengths)
            chances = torch.log_softmax(hidden @ model.embedding.T, -1)
        of_target = chances.gather(1, batch.targets[:, None])[:, 0]
        hit = chances.argmax(-1) == batch.targets
        turns = [(asked, turn) for asked, turn in pairwise(document.turns) if turn.role == "assistant"]
        for (start, end), (asked, _) in zip(spans((batch.weights == 1).tolist()), turns, strict=True):
            losses[start // BLOCK] += (-of_target[start:end]).tolist()
            if is_recall(asked):
                recalled[start // BLOCK].append(bool(hit[start:end].all()))
    return [
        LongResult(i * BLOCK, sum(loss) / len(loss), len(known), sum(known))
        for i, (loss, known) in enumerate(zip(losses, recalled, strict=True))
    ]


def spans(told: list[bool]) -> list[tuple[int, int]]:
    """Return the runs of targets that the assistant says, one a turn: where each begins, and where it has ended."""
    edges = [i for i, (before, now) in enumerate(pairwise([False, *told, False])) if before != now]
    return list(zip(edges[::2], edges[1::2], strict=True))


def is_recall(turn: DialogueTurn) -> bool:
    """Tell whether a user asks for what was told at the beginning."""
    return any(turn.content.endswith(question) for _, _, _, question, _ in TOLD)


def _long(tokenizer: PreTrainedTokenizerFast) -> Iterator[Document]:
    for document in conversations(SEED, "held-out"):
        if LEAST < len(encode(tokenizer.backend_tokenizer, document).ids) <= MOST:
            yield document
