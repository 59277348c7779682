"""The commands, a module each: `add(commands)` declares its arguments and sets the function that runs it.

`lab/` has the commands that train and measure the bundled models. Import heavy libraries in `run`, so that
`foreserve --help` stays quick.
"""

from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

FIRST = ("serve", "load", "demo", "study", "parity", "top", "call")
"""The commands that `foreserve --help` names first: they emulate and measure."""


def found() -> list[ModuleType]:
    """Return the module of each command, those of `lab/` included, in the order of `foreserve --help`."""
    names = [module.name for module in walk_packages(__path__, f"{__name__}.") if not module.ispkg]
    return [import_module(name) for name in sorted(names, key=_place)]


def _place(path: str) -> tuple[int, str]:
    name = path.rpartition(".")[2]
    return FIRST.index(name) if name in FIRST else len(FIRST), name
