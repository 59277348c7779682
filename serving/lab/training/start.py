"""What a training run begins with: random weights and a tokenizer of its own, or a model that has learnt something."""

import sys
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from tokenizers import Tokenizer

from serving.lab.training.export import from_hf, load_model
from serving.lab.training.model import TrainedModel
from serving.lab.training.progress import LOG
from serving.lab.training.settings import Settings
from serving.lab.training.tokenizer import train_tokenizer
from serving.lab.training.widening import widened
from serving.usage_error import UsageError


@dataclass(frozen=True, slots=True)
class TrainingStart:
    """The tokenizer and the model as they are before the first step, and the log of the runs that made them."""

    settings: Settings
    tokenizer: Tokenizer
    model: TrainedModel | None = None  # none: random weights
    log: str = ""


def afresh(settings: Settings) -> TrainingStart:
    """Begin with random weights, and with a tokenizer that is trained on the run's first documents."""
    print("foreserve train-bundled: making the tokenizer ...", file=sys.stderr, flush=True)
    return TrainingStart(settings, train_tokenizer(settings.seed, settings.shape.vocabulary, asked=settings.asked))


def from_model(folder: Path, settings: Settings) -> TrainingStart:
    """Begin with the weights, the tokenizer and the log of the trained model in `folder`, its heads widened where the
    settings' are wider; the settings say whose weights they were.

    Raise UsageError if there is no such model, or it has another shape.
    """
    try:
        weights, tokenizer, log = (folder / name for name in ("model.safetensors", "tokenizer.json", LOG))
        settings = replace(settings, began=sha256(weights.read_bytes()).hexdigest())
        hf = load_model(folder)
        narrow = from_hf(hf, replace(settings.shape, head_size=hf.config.head_dim))
        model = widened(narrow, settings.shape.head_size)
        return TrainingStart(settings, Tokenizer.from_file(str(tokenizer)), model, log.read_text(encoding="utf-8"))
    except Exception as error:  # the tokenizers' are bare ones
        raise UsageError(f"--start-from {folder}: no bundled model can be read there ({error}).") from error
