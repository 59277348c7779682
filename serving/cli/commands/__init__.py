"""The commands: a file each, with `add`, which adds its arguments, and what it runs. Whatever is heavy is imported when
a command runs."""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

FIRST = ("serve", "load", "demo", "study", "parity", "top", "call")
"""Named first by `foreserve --help`: what emulates and measures, before what is asked of models."""


def found() -> list[ModuleType]:
    """Return the module of each command, in the order of `foreserve --help`."""
    names = sorted((module.name for module in iter_modules(__path__)), key=_place)
    return [import_module(f"{__name__}.{name}") for name in names]


def _place(name: str) -> tuple[int, str]:
    return FIRST.index(name) if name in FIRST else len(FIRST), name
