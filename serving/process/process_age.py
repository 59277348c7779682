"""The age of this process: the real seconds since its program was started, imports of Python's included."""

import os
import time
from pathlib import Path

# Of the fields of /proc/self/stat that follow the name, which may have anything in it and is the second: the instant of
# the start in ticks since the boot (proc(5): starttime is the 22nd).
_START = 22 - 3


def process_age_s() -> float:
    """Return how long this process has been there. Where there is no /proc as Linux has it, return 0."""
    try:
        began = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[_START])
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return 0.0
