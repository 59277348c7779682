"""Log file: writes each line whole and at once; where writing fails the log ends, and nothing else."""

import contextlib
import errno
import logging
import os
from pathlib import Path

from serving.usage_error import UsageError

log = logging.getLogger("foreserve")


def _open_at_once(path: Path) -> int:
    """Open a file to write it anew; a pipe without waiting for its reader, neither now nor when it is full."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)


def told_once(option: str, path: Path, error: OSError, rest: str = "") -> None:
    """Log once that a log ends here."""
    why = error.strerror or str(error)
    log.error("%s %s cannot be written any more (%s): the log ends here%s.", option, path, why, rest)


class LogFile:
    """An unbuffered log file, so that a reader sees each line at once."""

    def __init__(self, path: Path, option: str) -> None:
        """Open the file. Raise `UsageError`, which names the `option` that asked for it, if that fails."""
        self._path, self._option = path, option
        try:
            self._file = os.fdopen(_open_at_once(path), "wb", buffering=0)
        except OSError as error:
            why = "nobody reads the pipe" if error.errno == errno.ENXIO else error.strerror or str(error)
            raise UsageError(f"{option} {path} cannot be written: {why}.") from error

    def write(self, line: bytes) -> None:
        """Write a line, unless the buffer is full."""
        if self._file.closed:
            return
        written = 0
        try:
            taken = self._file.write(line)
            if taken is None:
                raise BlockingIOError(errno.EAGAIN, "the pipe is full, as its reader is too slow")
            written = taken
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            told_once(self._option, self._path, error)
            with contextlib.suppress(OSError):
                # Of what is no line, nothing is left.
                self._file.truncate(self._file.tell() - written)
            self.close()

    def close(self) -> None:
        """Write what is left and close the file."""
        with contextlib.suppress(OSError):
            self._file.close()
