"""The figures of each system's paper, predicted: one file a system, with a function `figures`. The file's name is the
system's.
"""

from importlib import import_module
from pathlib import Path

from device_model.specs.spec_file import check_name, names_in
from device_model.validation.figures import PaperFigure

FOLDER = Path(__file__).parent


def systems() -> list[str]:
    """Return the systems whose papers' figures are predicted."""
    return names_in(FOLDER, ".py")


def figures_of(system: str) -> list[PaperFigure]:
    """Return the figures of the paper of `system`. Raise UnknownName for one that has none."""
    check_name(system, "paper of", FOLDER, ".py")
    found: list[PaperFigure] = import_module(f"device_model.validation.papers.{system}").figures()
    return found
