"""Supervision of an emulation from its start on: parts that do not answer, and the loss of Ray."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ray.exceptions import RayError

from serving.cluster.session.ray_settings import is_joined
from serving.cluster.supervision.deaths import summary
from serving.cluster.supervision.ray_watch import RayLost, on_loss, ray_processes, watch_ray
from serving.process.shutdown import LOST, end_soon
from serving.usage_error import UsageError

if TYPE_CHECKING:
    from serving.cluster.readiness import Readiness
    from serving.cluster.supervision.kept_part import KeptPart
    from serving.edge.engine_core import EmulatedCore

log = logging.getLogger("foreserve")

T = TypeVar("T")


class StartError(UsageError):
    """A start that failed; the message is for the user."""


def loss_of_ray(stack: contextlib.AsyncExitStack) -> "asyncio.Future[str]":
    """Watch Ray until `stack` closes; return a future of the reason why it is lost."""
    lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def lose(why: str) -> None:
        # Said at once: without Ray, what follows may never end by itself.
        log.error("%s, and with it all that served. Start the server anew, as a supervisor does.", why)
        lost.set_result(why)

    watching = asyncio.create_task(watch_ray(ray_processes(own=not is_joined())))
    watching.add_done_callback(lambda task: on_loss(task, lose))
    stack.callback(watching.cancel)
    return lost


def watch(
    stack: contextlib.AsyncExitStack, core: "EmulatedCore", kept: "Sequence[KeptPart]", lost: "asyncio.Future[str]"
) -> "Readiness":
    """Watch the parts of an emulation, some of which are `kept` processes, until `stack` closes; return their state, in
    which Ray may be `lost`."""
    from serving.cluster.readiness import Readiness

    readiness = Readiness(core.devices)

    def lose(why: str) -> None:
        readiness.lose(why)
        core.fail_all()

    lost.add_done_callback(lambda reason: lose(reason.result()))
    for each in kept:
        readiness.watch(each)
    readiness.watchdog.start()
    stack.callback(readiness.watchdog.stop)
    return readiness


async def unless(lost: "asyncio.Future[str]", work: Coroutine[Any, Any, T]) -> T:
    """Return what a part of the start, `work`, does.

    Raise RayLost as soon as Ray is: without it, work may never end. Raise StartError if an actor does not start.
    """
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait((working, lost), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            end_soon(LOST)
            raise RayLost(lost.result())
        return working.result()
    except RayError as error:
        log.debug("%s", error)
        sentence = (
            f"A part of the server does not start: {summary(error)}. (`--log-level debug` shows where it failed.)"
        )
        raise StartError(sentence) from error
    finally:
        working.cancel()
