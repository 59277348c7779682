"""`foreserve train-bundled`: trains the bundled model, measures it, and writes its card."""

import os
import sys
from pathlib import Path

from serving.lab.training.settings import Settings, TrainingBudget
from serving.scenario.scenario import BUNDLED_MODEL

MINUTES = 45.0


def train_bundled(out: Path | None, budget: tuple[float | None, int | None], seed: int, threads: int) -> int:
    """Train for so many minutes or steps; what is unfinished after Ctrl-C stays apart from what is finished."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from serving.lab.training.card import describe
    from serving.lab.training.tokenizer import train_tokenizer
    from serving.lab.training.train import UNFINISHED, TrainingRun, train

    folder = out or BUNDLED_MODEL
    settings = Settings(seed=seed, threads=threads)
    print("foreserve train-bundled: making the tokenizer ...", file=sys.stderr, flush=True)
    run = TrainingRun(settings, train_tokenizer(seed, settings.shape.vocabulary))
    minutes, steps = budget
    if not train(run, TrainingBudget(steps, None if steps else minutes or MINUTES), folder):
        print(f"foreserve train-bundled: stopped; what it learnt is in {folder / UNFINISHED}", file=sys.stderr)
        return 130
    print("foreserve train-bundled: measuring, and writing the card ...", file=sys.stderr, flush=True)
    describe(folder)
    return 0


def describe_bundled(out: Path | None) -> int:
    """Measure a model that is trained, and write its card anew."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from serving.lab.training.card import describe

    describe(out or BUNDLED_MODEL)
    return 0
