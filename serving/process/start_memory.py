"""The memory that this process was started with, where the kernel looks for its arguments and environment, and shows
them to whoever may ask: another user's `ps`, or programs of this user's."""

import contextlib
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path


class Part(IntEnum):
    """What is shown, by the field of /proc/self/stat that says where it begins (proc(5): arg_start, env_start)."""

    CMDLINE = 48
    ENVIRON = 50


def overwrite(part: Part, masked: Callable[[list[str]], list[str]]) -> None:
    """Put masked words, each as long as it was, in the place of a part's words. Where there is no /proc as Linux has
    it, or it is closed to us, leave them."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        before = Path(f"/proc/self/{part.name.lower()}").read_bytes()
        words = before.decode("latin-1").split("\0")  # a character a byte
        after = "\0".join(masked(words)).encode("latin-1")
        # Of the fields that follow the name, which may have anything in it, and is the second.
        begin = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[part - 3])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(begin)
            if memory.read(len(before)) == before and len(after) == len(before):
                memory.seek(begin)
                memory.write(after)
