"""Trains a model on the corpus: the loop, from its first step or from a checkpoint."""

import shutil
import time
from dataclasses import asdict
from pathlib import Path

from serving.lab.training.checkpoint import CHECKPOINT, load_checkpoint, save_checkpoint
from serving.lab.training.export import save_model
from serving.lab.training.progress import TrainingProgress
from serving.lab.training.tokenizer import save_tokenizer
from serving.lab.training.training_run import TrainingRun

CHECKPOINT_S = 180.0
MEASURE_EVERY = 100  # steps
UNFINISHED = "unfinished"


def train(run: TrainingRun, folder: Path, resume: bool = False, earlier: str = "") -> bool:
    """Take all steps, or those until Ctrl-C; whether it was finished.

    What has been learnt so far goes to `folder`/unfinished every few minutes, where another run can `resume` it; a
    finished run moves it to `folder`. The log begins with that of the `earlier` runs, whose weights this one goes on
    from. Raise UsageError if there is nothing that this run can resume.
    """
    unfinished, progress = folder / UNFINISHED, TrainingProgress(earlier)
    taken = load_checkpoint(run, progress, unfinished) if resume else 0
    finished = True
    try:
        _train(run, taken, progress, unfinished)
    except KeyboardInterrupt:  # perhaps amid an update: the checkpoint stays that of a whole step
        finished = False
    _save(run, progress, unfinished, finished)
    if finished:
        (unfinished / CHECKPOINT).unlink(missing_ok=True)
        shutil.copytree(unfinished, folder, dirs_exist_ok=True)
        shutil.rmtree(unfinished)
    return finished


def _train(run: TrainingRun, taken: int, progress: TrainingProgress, folder: Path) -> None:
    saved_s, steps = time.monotonic(), run.settings.steps
    progress.begin(run.tokens)
    for step in range(taken, steps):
        if step % MEASURE_EVERY == 0:
            progress.held_out = run.measure()
        if progress.step(step, run.step(step), run.tokens, *run.load()):
            progress.say((step + 1) / steps)
        if time.monotonic() - saved_s > CHECKPOINT_S:
            _save(run, progress, folder, finished=False)
            save_checkpoint(run, step + 1, progress, folder)
            saved_s = time.monotonic()
    run.settle()
    progress.held_out = run.measure()
    progress.end()


def _save(run: TrainingRun, progress: TrainingProgress, folder: Path, finished: bool) -> None:
    """Write the model as it is, its tokenizer, and the log."""
    folder.mkdir(parents=True, exist_ok=True)
    save_model(run.model, folder)
    save_tokenizer(run.tokenizer, run.settings.shape.context, folder)
    progress.write(folder, asdict(run.settings) | {"finished": finished})
