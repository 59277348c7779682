"""What a server says on stdout, and leaves in files, for whoever has started it: if it can't be said, it serves all the
same."""

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

# A disk that is full, or does not work: nothing that was wrong when the server was asked for.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def tell(line: str) -> None:
    """Print a line. Whoever has heard enough, or has no room for it, hears no more."""
    try:
        print(line, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def ready_file(path: Path | None, addresses: Mapping[str, object]) -> Iterator[None]:
    """There is a file with addresses, if one was asked for, for as long as the context lasts."""
    with contextlib.ExitStack() as stack:
        if path is not None:
            stack.enter_context(written(path, json.dumps(addresses), "--ready-file"))
        yield


@contextlib.contextmanager
def written(path: Path, text: str, option: str) -> Iterator[None]:
    """A file that is whole from the first moment on, as others read it at once, and gone in the end, whatever that is.
    Raises OSError for one that can't be, but for want of room."""
    if path.exists() and not path.is_file():  # a pipe, which somebody reads
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
