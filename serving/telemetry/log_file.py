"""Writes log lines to a file, each whole and at once; where writing fails the log ends, and nothing else."""

import contextlib
import errno
import logging
import os
from pathlib import Path

from serving.scenario.scenario import ScenarioError

log = logging.getLogger("foreserve")


def told_once(option: str, path: Path, error: OSError, rest: str = "") -> None:
    """Log once that a log ends here."""
    why = error.strerror or str(error)
    log.error("%s %s cannot be written any more (%s): the log ends here%s.", option, path, why, rest)


class LogFile:
    """An unbuffered log file, so that a reader sees each line at once."""

    def __init__(self, path: Path, option: str) -> None:
        """Open the file. Raise `ScenarioError`, which names the `option` that asked for it, if that fails."""
        self._path, self._option = path, option
        try:
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            why = error.strerror or str(error)
            raise ScenarioError(f"{option} {path} cannot be written: {why}.") from error

    def write(self, line: bytes) -> None:
        """Write a line, unless the buffer is full."""
        if self._file.closed:
            return
        written = 0
        try:
            written = self._file.write(line)
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
