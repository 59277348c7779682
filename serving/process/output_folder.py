"""The folder, or the file, that a command is to write to."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from serving.usage_error import CommandFailed, UsageError


def make_folder(option: str, folder: Path) -> None:
    """Make what `option` names, before minutes are spent on what can't be written. UsageError if it can't be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        what = f"{option} is {folder}; allowed is a folder that can be written to: {error.strerror}."
        raise UsageError(what) from error


def make_place(option: str, file: Path) -> None:
    """Make the folder of a file that `option` names. UsageError if that can't be made, or if the file is a folder."""
    make_folder(option, file.parent)
    if file.is_dir():
        raise UsageError(f"{option} is {file}, which is a folder; allowed is a file, as {file / 'NAME'}.")


def write_text(option: str, file: Path, text: str) -> None:
    """Write a text file in the folder that `option` names. Raise UsageError if that can't be done."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option}: {file} cannot be written: {error.strerror}.") from error


@contextlib.contextmanager
def writing(place: Path, kept: str) -> Iterator[None]:
    """Have what fails to be written at a place, or in the folder there, told in a sentence, and after it what is `kept`
    all the same. Raise CommandFailed."""
    try:
        yield
    except OSError as error:
        what = f"{error.filename or place} cannot be written: {error.strerror or error}."
        raise CommandFailed(f"{what} {kept}") from error


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` at the end: what was there stays if the writing is broken off.

    Raise UsageError if it cannot be written.
    """
    try:
        with draft_of(path) as file:
            yield file
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error


@contextlib.contextmanager
def draft_of(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` at the end, as `whole_file` does. Raise OSError."""
    path = behind_links(path)
    # What is no file, as a pipe or /dev/null, is not to be replaced.
    draft = path.with_name(f".{path.name}.{os.getpid()}") if is_replaceable(path) else path
    try:
        with draft.open("wb") as file:
            yield file
        if draft != path:
            draft.replace(path)
    except BaseException:
        if draft != path:
            draft.unlink(missing_ok=True)
        raise


def is_replaceable(path: Path) -> bool:
    """Tell whether another file may take the place of what is at a path: if that is a file, or nothing."""
    return path.is_file() or not path.exists()


def behind_links(path: Path) -> Path:
    """Return the path of the file that links lead to; of what is no file the path itself: a pipe in /proc or /dev/fd
    has no other one."""
    return path.resolve() if is_replaceable(path) else path
