"""Are the gradients that processes work out those of their parts, and do the processes end?"""

import gc
import os
import signal
import subprocess
import sys
import time
from itertools import islice

import psutil
import pytest
import torch

from serving.lab.corpus.corpus import documents
from serving.lab.training.gradients import GradientWorkers, PartGradients
from serving.lab.training.model import TrainedModel, initialise
from serving.lab.training.reading import PartReading
from serving.lab.training.settings import Settings
from serving.lab.training.shape import ModelShape
from serving.lab.training.tokenizer import bpe
from serving.usage_error import CommandFailed

SMALL = ModelShape(
    vocabulary=400, layers=1, hidden=32, heads=2, kv_heads=1, head_size=16, experts=8, active=2, expert_hidden=16
)
SETTINGS = Settings(shape=SMALL, parts=3, part_tokens=256, long_tokens=256, threads=2)


@pytest.fixture(scope="module")
def tokenizer():
    return bpe([turn.content for each in islice(documents(0, "train"), 200) for turn in each.turns], SMALL.vocabulary)


@pytest.fixture
def workers(tokenizer):
    torch.set_num_threads(1)
    return GradientWorkers(PartGradients(initialise(TrainedModel(SMALL), 0), SETTINGS), tokenizer)


def test_each_part_reads_its_own_documents_and_gives_its_own_gradients(workers, tokenizer):
    made = workers._made
    readings = [PartReading(SETTINGS, tokenizer, part) for part in range(3)]
    for step in range(2):
        assert workers.work_out(step) == 3 * 256
        theirs = [grads.clone() for grads in made.grads], made.losses.clone(), made.use.clone()
        batches = [reading.take(step) for reading in readings]
        assert len({tuple(batch.ids.tolist()) for batch in batches}) == 3
        for part, batch in enumerate(batches):
            made.work_out(part, batch)
        assert all(torch.equal(a, b) for a, b in zip(theirs[0], made.grads, strict=True))
        assert torch.equal(theirs[1], made.losses) and torch.equal(theirs[2], made.use)
        assert len(set(made.losses.tolist())) == 3


def ours():
    return {child.pid: child for child in psutil.Process().children()}


def test_a_process_that_dies_is_told_of(workers):
    before = ours()
    workers.work_out(0)
    began = [child for pid, child in ours().items() if pid not in before]
    assert len(began) == 2
    began[1].kill()
    with pytest.raises(CommandFailed, match=r"A process of the training has ended.*--resume goes on"):
        for step in range(1, 3):  # the first question may still be taken
            workers.work_out(step)


def test_processes_end_when_nobody_has_them_any_more(tokenizer):
    workers = GradientWorkers(PartGradients(initialise(TrainedModel(SMALL), 0), SETTINGS), tokenizer)
    before = ours()
    workers.work_out(0)
    began = [child for pid, child in ours().items() if pid not in before]
    assert began
    del workers
    gc.collect()
    assert not psutil.wait_procs(began, timeout=20)[1]


def test_processes_end_with_a_run_that_is_killed(tmp_path):
    code = "from serving.lab.training.command import train_bundled; from serving.lab.training.settings import Settings;"
    code += f"from pathlib import Path; train_bundled(Path({str(tmp_path)!r}), Settings(part_tokens=256, steps=10**6))"
    run = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while not (began := psutil.Process(run.pid).children()):
            assert time.monotonic() < until and run.poll() is None
            time.sleep(0.1)
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    assert not psutil.wait_procs(began, timeout=20)[1]
