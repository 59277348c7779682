"""Is every command found, those of the lab too, and in the README's table?"""

import argparse
import re
from pathlib import Path

import pytest

from serving.cli import commands
from serving.cli.main import make_parser, parse

ROOT = Path(__file__).parents[3]


def names() -> list[str]:
    (added,) = [each for each in make_parser()._actions if isinstance(each, argparse._SubParsersAction)]
    return list(added.choices)


def test_each_module_adds_a_command() -> None:
    files = [path.stem.replace("_", "-") for path in Path(commands.__path__[0]).rglob("[a-z]*.py")]
    assert sorted(names()) == sorted(files)
    assert names()[: len(commands.FIRST)] == list(commands.FIRST)


def test_the_readme_has_each_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`foreserve [^|]*?`[^|]*) \|", text, re.MULTILINE)
    words = {word.removeprefix("foreserve ").split()[0] for cell in cells for word in re.findall(r"`([^`]+)`", cell)}
    assert set(names()) == words - {"/ui"}


def test_a_seed_that_cannot_be_one_is_refused_before_anything_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["locality", "--seed=-1"])
    assert "allowed is a whole number from 0 on" in capsys.readouterr().err
