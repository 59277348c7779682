"""The folder that a command is to write to, and the one that our code lies in."""

import hashlib
from functools import cache
from pathlib import Path

import device_model
from device_model.specs.spec import SpecError


def make_folder(option: str, folder: Path) -> None:
    """Make what `option` names, before minutes are spent on what can't be written. SpecError if it can't be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"{option} is {folder}; allowed is a folder that can be written to: {error.strerror}."
        raise SpecError(what) from error


KINDS = (".py", ".toml", ".csv", ".json", ".npz")


@cache
def package_digest() -> str:
    """Tells states of this code apart: a hash over all its files of code and data that results follow from, so without
    those that write reports."""
    digest = hashlib.sha256()
    for package in (Path(device_model.__file__).parent, Path(__file__).parents[1]):
        for path in sorted(
            path for path in package.rglob("*") if path.suffix in KINDS and path.parent.name != "report"
        ):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
