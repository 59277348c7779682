"""Is what `foreserve train-bundled` is told of a training heeded, and refused where nothing is trained?"""

import argparse
from pathlib import Path

import pytest

from serving.cli.commands.lab import train_bundled
from serving.lab.training import command
from serving.lab.training.settings import Settings
from serving.usage_error import UsageError


def parsed(*told: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    train_bundled.add(parser.add_subparsers())
    return parser.parse_args(["train-bundled", *told])


@pytest.mark.parametrize(
    ("told", "settings"),
    [
        ([], Settings()),
        (["--asked", "0", "--seed", "0"], Settings(asked=0.0)),
        (["--steps", "7", "--threads", "1", "--seed", "3"], Settings(steps=7, threads=1, seed=3)),
    ],
)
def test_a_training_has_the_settings_that_it_is_told(
    monkeypatch: pytest.MonkeyPatch, told: list[str], settings: Settings
) -> None:
    found: list[object] = []
    monkeypatch.setattr(command, "train_bundled", lambda out, *asked: found.append(asked) or 0)
    assert train_bundled.run(parsed(*told)) == 0 and found == [(settings, False, None)]


def test_a_part_is_kept_of_what_is_learnt_from_other_weights_on_only(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[object] = []
    monkeypatch.setattr(command, "train_bundled", lambda out, *asked: found.append(asked) or 0)
    assert train_bundled.run(parsed("--kept", "0.6", "--start-from", "x")) == 0
    assert found == [(Settings(kept=0.6), False, Path("x"))]
    with pytest.raises(UsageError, match="--kept goes with --start-from"):
        train_bundled.run(parsed("--kept", "0.6"))


@pytest.mark.parametrize("told", ["--resume", "--seed=0", "--asked=0", "--threads=1", "--kept=0.5", "--start-from=x"])
def test_a_card_alone_has_no_options_of_a_training(told: str) -> None:
    with pytest.raises(UsageError, match=f"--card trains nothing: {told.split('=')[0]} goes with a training"):
        train_bundled.run(parsed("--card", told))
