"""Is what `foreserve train-bundled` is told of a training heeded, and refused where nothing is trained?"""

import argparse

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


@pytest.mark.parametrize("told", ["--resume", "--seed=0", "--asked=0", "--threads=1", "--start-from=x"])
def test_a_card_alone_has_no_options_of_a_training(told: str) -> None:
    with pytest.raises(UsageError, match=f"--card trains nothing: {told.split('=')[0]} goes with a training"):
        train_bundled.run(parsed("--card", told))
