"""Options that several commands have."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serving.scenario.key import Key, keys_of
from serving.scenario.kind import Kind
from serving.scenario.scenario import Scenario

KEYS = keys_of(Scenario)
HELP = {name: declared.help for name, declared in KEYS.items()}
"""What each key of a scenario says, on the command line too."""

MOST = 1_000_000  # of whatever the command line counts


PARSERS: dict[Kind, tuple[Callable[[str], Any], str]] = {Kind.WHOLE: (int, "INT"), Kind.NUMBER: (float, "FLOAT")}


def option_of(key: str) -> str:
    """Return the option that stands for a key of a scenario."""
    return "--" + (KEYS[key].one or key).replace("_", "-")


def options_of(key: str) -> list[str]:
    """Return all options that stand for a key: its own first."""
    return [option_of(key), *(f"--{name}" for name in KEYS[key].also)]


def file_name(text: str) -> str:
    """Return the name of a file from the command line, where an empty one is a variable that wasn't set."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty; it must name a file")
    return text


def parser_of(key: Key) -> tuple[Callable[[str], Any], str]:
    """Return what parses the option of a key, and what stands for its value in the help."""
    if key.kind is Kind.FILE:
        return file_name, "FILE"
    if key.kind is Kind.WORDS:
        return str, key.one.rpartition("_")[2].upper()
    return PARSERS.get(key.kind, (str, "STR"))


def natural(text: str) -> int:
    """Return a whole number from 0 on, from the command line."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed is a whole number from 0 on")
    return int(text)


def amount(unit: str, least: float = 0.0, most: float = math.inf) -> Callable[[str], float]:
    """Return the parser of a number of `unit` from the command line, from `least` to `most`, or else above 0."""
    allowed = f"from {least:g} to {most:g}" if least else "above 0"

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not (0 < value < math.inf and least <= value <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed is a number of {unit} {allowed}")
        return value

    return parse


def positive(text: str) -> int:
    """Return a whole number from 1 on, from the command line."""
    if not text.isdigit() or not 1 <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed is a whole number from 1 to {MOST}")
    return int(text)


def named_path(text: str) -> Path:
    """Return a path from the command line; an empty one (of a variable that is not set) would be this folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; allowed is the name of a file or folder")
    return Path(text)
