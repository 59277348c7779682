"""The arguments that commands with a report have in common, and how a command tells what a room has found.

A room offers functions without side effects: one finds, `to_json` and `show` say it, and what writes a folder returns
the paths. The command prints.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from device_model.load import SYSTEMS
from device_model.specs.hardware_file import FOLDER, is_file
from device_model.specs.spec import SpecError
from device_model.specs.spec_file import MODELS, SPECS, names_in
from serving.cli.parser import name_by_value
from serving.scenario.options import HELP, KEYS, named_path
from serving.scenario.scenario import BUNDLED_MODEL, Scenario, token_model_of

if TYPE_CHECKING:
    from rich.console import Console

EMULATED = ("system", "hardware", "model")
"""The keys of a scenario that name what is emulated."""
FOLDERS = {"system": (SYSTEMS, ".py"), "hardware": (FOLDER, ".toml"), "model": (SPECS / MODELS, ".toml")}
"""Where the files are that each of them names, and how these end."""
ROWS = 1
"""The indent of JSON that has a row for each of many runs."""
T = TypeVar("T")


def add_json(parser: argparse.ArgumentParser, what: str = "the results") -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help=f"print {what} as JSON on stdout")


def add_out(parser: argparse.ArgumentParser, what: str, default: Path | None = None) -> None:
    """Add `--out`, a folder in which `what` is done."""
    shown = what if default is None else f"{what} (default: {default})"
    parser.add_argument("--out", type=named_path, default=default, metavar="DIR", help=shown)


def add_emulated(parser: argparse.ArgumentParser, names: Iterable[str] = EMULATED) -> None:
    """Add options for what is emulated, with a scenario's defaults."""
    for name in names:
        default = getattr(Scenario(), name)
        parser.add_argument(f"--{name}", default=default, metavar="NAME", help=f"{HELP[name]} (default: {default})")
        name_by_value(parser, f"--{name}", partial(_names_like, name))


def _names_like(key: str, text: str) -> list[str]:
    """Return the names that there are of what a key of `EMULATED` names; of hardware the path of any file is one."""
    if key == "hardware" and is_file(text):
        return [text]
    try:
        return names_in(*FOLDERS[key])
    except SpecError:  # One's own specs can't be read, which is said once a command runs.
        return []


def add_token_model(parser: argparse.ArgumentParser) -> None:
    """Add `--token-model`: a bundled one by its name is its folder."""
    parser.add_argument(
        "--token-model",
        type=token_model_of,
        default=str(BUNDLED_MODEL),
        metavar="DIR",
        help=f"{HELP['token_model']} (default: {BUNDLED_MODEL.name})",
    )


def add_law(parser: argparse.ArgumentParser, default: str | None = Scenario().law, shown: str = Scenario().law) -> None:
    """Add `--law`; a command that must know whether it was given has None as its `default`. `shown`: what help says
    that is."""
    shown = f"{HELP['law']} (default: {shown})"
    parser.add_argument("--law", choices=KEYS["law"].choices, default=default, help=shown)


def tell(
    as_json: bool, found: T, to_json: Callable[[T], Any], show: "Callable[[T, Console], None]", indent: int = 2
) -> None:
    """Print what was found on stdout, as JSON or for people."""
    if as_json:
        from serving.presentation.json_text import json_text

        print(json_text(to_json(found), indent))
    else:
        from serving.presentation.wide_console import wide_console

        show(found, wide_console())


def tell_written(paths: Iterable[Path], what: str = "Written") -> None:
    """Print on stderr, apart from the results, which files were written."""
    for path in paths:
        print(f"{what}: {path}", file=sys.stderr)
