"""Waiting, in tests, for what comes: as soon as it may be on this machine, and as late as on one that is busy."""

import time
from collections.abc import Callable

PATIENCE_S = 60.0


def until(there: Callable[[], object], within_s: float = PATIENCE_S) -> None:
    """Wait until something holds; fail if it does not come to within so many real seconds."""
    end_s = time.monotonic() + within_s
    while not there():
        assert time.monotonic() < end_s
        time.sleep(0.05)
