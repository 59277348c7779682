"""`foreserve train-bundled`: trains the bundled model, measures it, and writes its card."""

import os
import sys
from dataclasses import replace
from pathlib import Path

from serving.lab.training.settings import Settings
from serving.process.output_folder import make_folder
from serving.scenario.scenario import BUNDLED_MODEL


def train_bundled(out: Path | None, settings: Settings, resume: bool = False, start: Path | None = None) -> int:
    """Train, measure and write the card; what is unfinished after Ctrl-C stays apart from what is finished, and can be
    resumed. With `start`, the folder of a model of the same shape, go on from its weights, in its tokens.

    Raise UsageError if there is nothing to resume, no such model, or no folder `out` that can be written to.
    """
    folder = out or BUNDLED_MODEL
    make_folder("--out", folder)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    from serving.lab.training.start import afresh, from_model
    from serving.lab.training.train import UNFINISHED, train
    from serving.lab.training.training_run import TrainingRun

    settings = for_cpu(settings, torch.ops.mkldnn._is_mkldnn_bf16_supported())
    begun = afresh(settings) if start is None else from_model(start, settings)
    run = TrainingRun(begun.settings, begun.tokenizer, begun.model)
    if not train(run, folder, resume, begun.log):
        print(f"foreserve train-bundled: stopped; what it learnt is in {folder / UNFINISHED}", file=sys.stderr)
        print("foreserve train-bundled: --resume goes on from the last three minutes' checkpoint", file=sys.stderr)
        return 130
    print("foreserve train-bundled: measuring, and writing the card ...", file=sys.stderr, flush=True)
    return describe_bundled(folder)


def for_cpu(settings: Settings, has_bf16: bool) -> Settings:
    """Return the settings for a CPU, with products in single precision where it would only emulate those in BF16, at a
    fortieth of the speed; say then that the weights will not be the shipped ones."""
    if has_bf16 or not settings.narrow:
        return settings
    print(
        "foreserve train-bundled: this CPU has no BF16 (AVX-512, AMX, SVE), so products are in single precision:"
        " it takes longer, and the weights will not be the shipped ones, bit for bit.",
        file=sys.stderr,
        flush=True,
    )
    return replace(settings, narrow=False)


def describe_bundled(out: Path | None) -> int:
    """Measure a model that is trained, and write its card anew."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from serving.lab.training.card.card import describe

    describe(out or BUNDLED_MODEL)
    return 0
