"""What the parts of a training run's steps read, each from documents of its own."""

from collections.abc import Iterable, Iterator
from random import Random

from tokenizers import Tokenizer

from serving.lab.corpus.corpus import Document, conversations, documents
from serving.lab.training.batches import TokenBatch, TokenStream, batches, encode, segments
from serving.lab.training.settings import Settings, is_long


class PartReading:
    """What one part of each step reads: documents, and in long steps, if it is of the first half, conversations."""

    def __init__(self, settings: Settings, tokenizer: Tokenizer, part: int) -> None:
        seed = settings.seed * settings.parts + part
        self._settings, self._has_long = settings, part < settings.parts // 2
        self._usual = usual(settings, tokenizer, "train", settings.alone, seed)
        talk = _encoded(tokenizer, conversations(seed, "train"))
        self._long = batches(segments(talk, settings.long_tokens, 0.0, Random(seed)), settings.long_tokens)

    def take(self, step: int) -> TokenBatch:
        """Return what this step reads, next after the steps before it."""
        return next(self._long if self._has_long and is_long(step, self._settings) else self._usual)


def usual(settings: Settings, tokenizer: Tokenizer, split: str, alone: float, seed: int) -> Iterator[TokenBatch]:
    """Yield batches of documents, so large a share of them alone in their segments."""
    runs = segments(_encoded(tokenizer, documents(seed, split, settings.asked)), settings.segment, alone, Random(seed))
    return batches(runs, settings.part_tokens)


def _encoded(tokenizer: Tokenizer, documents_: Iterable[Document]) -> Iterator[TokenStream]:
    return (encode(tokenizer, document) for document in documents_)
