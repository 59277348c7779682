"""A training run's checkpoint: all that it needs to go on, step for step, as if it had never stopped."""

import os
from dataclasses import asdict, astuple
from pathlib import Path
from pickle import UnpicklingError

import torch

from serving.lab.training.progress import TrainingPoint, TrainingProgress
from serving.lab.training.training_run import TrainingRun
from serving.usage_error import UsageError

CHECKPOINT = "checkpoint.pt"


def save_checkpoint(run: TrainingRun, steps: int, progress: TrainingProgress, folder: Path) -> None:
    """Write what a run has learnt in so many steps; a write that is broken off leaves the checkpoint before it."""
    state = {
        "settings": _fixed(run),
        "steps": steps,
        "tokens": run.tokens,
        "weights": run.model.state_dict(),
        "optimisers": [optimiser.state_dict() for optimiser in run.optimisers],
        "used": run.used,
        "points": [astuple(point) for point in progress.points],
    }
    torch.save(state, folder / f".{CHECKPOINT}")
    os.replace(folder / f".{CHECKPOINT}", folder / CHECKPOINT)


def load_checkpoint(run: TrainingRun, progress: TrainingProgress, folder: Path) -> int:
    """Bring a new run to where one stopped, past the documents that it has read; return the steps it had taken.

    Raise UsageError if there is no checkpoint, or it can't be read, or is of other settings or another tokenizer.
    """
    path = folder / CHECKPOINT
    try:
        state = torch.load(path, weights_only=True)
    except FileNotFoundError:
        raise UsageError(f"There is no checkpoint in {folder}, so no training to resume.") from None
    except (RuntimeError, EOFError, UnpicklingError) as error:  # cut, empty, anything else
        raise UsageError(f"{path} can't be read, so that nothing can be resumed from it.") from error
    if state["settings"] != _fixed(run):
        raise UsageError(f"The checkpoint in {folder} is of other settings, or of another corpus.")
    run.model.load_state_dict(state["weights"])
    for optimiser, saved in zip(run.optimisers, state["optimisers"], strict=True):
        optimiser.load_state_dict(saved)
    run.used.copy_(state["used"])
    run.tokens, progress.points = state["tokens"], [TrainingPoint(*point) for point in state["points"]]
    return int(state["steps"])


def _fixed(run: TrainingRun) -> dict[str, object]:
    """Return what a run must have in common with the one that it goes on with; how many threads doesn't matter."""
    settings = {name: value for name, value in asdict(run.settings).items() if name != "threads"}
    return settings | {"tokenizer": run.tokenizer.to_str()}
