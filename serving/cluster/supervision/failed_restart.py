"""Failed restarts: an actor whose `__init__` fails in a restart is started again, as one whose process was ended."""

import functools
import logging
import os
import time
from collections.abc import Callable
from typing import ParamSpec

import ray

log = logging.getLogger("foreserve")

P = ParamSpec("P")

# Real seconds until another process tries what one has failed at: a disk may be full, or a file be edited just now.
AGAIN_S = 1.0


def started_again(init: Callable[P, None]) -> Callable[P, None]:
    """Have an actor's `__init__` end its process where it fails in a restart; at the first start it raises its error.

    Ray starts an actor again whose process has ended. One whose `__init__` has raised is dead to it, whatever
    `max_restarts` says, and nobody here has another one made.
    """

    @functools.wraps(init)
    def begin(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            init(*args, **kwargs)
        except Exception:
            if not ray.get_runtime_context().was_current_actor_reconstructed:
                raise
            log.exception("The actor could not start again; it is tried once more.")
            time.sleep(AGAIN_S)
            os._exit(1)

    return begin
