"""The state of a file, by which it is read again once it has changed."""

import os
from pathlib import Path
from typing import NamedTuple


class FileState(NamedTuple):
    """The instant of a file's last change, in nanoseconds since 1970, its size in bytes, and which file has its name:
    inode and device."""

    changed_ns: int
    size: int
    inode: int
    device: int

    @classmethod
    def of(cls, path: str | Path) -> "FileState | None":
        """Return the state of the file at `path`, and None where none can be looked at: whoever reads it says why."""
        try:
            about = os.stat(path)  # not by a Path: that of "" is the folder one is in
        except OSError:
            return None
        return cls(about.st_mtime_ns, about.st_size, about.st_ino, about.st_dev)
