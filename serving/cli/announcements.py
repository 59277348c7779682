"""A server's announcements, on stdout and in files: one that cannot be made does not end the server."""

import contextlib
import errno
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from serving.process.run_folder import gone_with_run

log = logging.getLogger("foreserve")

# A disk that is full, or broken: no mistake in the command, so the server goes on.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def tell(line: str) -> None:
    """Print a line. If stdout is closed, or its disk full, drop this line and all later ones."""
    try:
        print(line, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def ready_file(path: Path | None, addresses: Mapping[str, object]) -> Iterator[None]:
    """Keep the addresses as JSON in a file, if there is a path, for as long as the context lasts."""
    with contextlib.ExitStack() as stack:
        if path is not None:
            stack.enter_context(written(path, json.dumps(addresses), "--ready-file"))
        yield


@contextlib.contextmanager
def written(path: Path, text: str, option: str) -> Iterator[None]:
    """Keep `text` in a file for as long as the context lasts; the file is whole from its first moment on.

    Raise OSError if it cannot be written, unless the disk is full or broken: then log that `option` has no file.
    """
    if path.exists() and not path.is_file():  # A pipe: replacing it would cut off its reader.
        path.write_text(text, encoding="utf-8")
        yield
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
        gone_with_run(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        if error.errno not in FULL:
            raise
        log.error("%s %s is not written: %s. The server is up without it.", option, path, error.strerror)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
