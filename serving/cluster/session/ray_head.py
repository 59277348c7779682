"""Ray's head: a fork that starts a Ray of our own and keeps it, while the process that serves imports vLLM.

Ray takes some seconds to start, and so does vLLM to be imported, each on a core of its own. Whoever serves connects to
that Ray as a driver, as soon as it can, and Ray ends with its head: when it is told to, or whoever serves is gone.
"""

import asyncio
import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from serving.cluster.session.ray_node import RayNode, is_told, tell, wait_for_node
from serving.cluster.session.ray_settings import keep_strangers_out, set_environment, show_token
from serving.process.forks.fork_off import name_process
from serving.process.forks.forked_child import ForkedChild
from serving.usage_error import UsageError

NAME = "foreserve-ray"
# Real seconds to end Ray; what is left then ends with the run's folder.
END_S = 8.0


class RayHead(NamedTuple):
    """A head that has begun to start Ray, for the run of a `folder`."""

    child: ForkedChild
    folder: Path

    @property
    def is_up(self) -> bool:
        """Tell whether Ray has started, or failed to."""
        return is_told(self.folder)

    def address(self) -> str:
        """Wait for Ray, and return its address. Raise UsageError if it did not start."""
        node = wait_for_node(self.folder, self.child.has_ended)
        if node.failure:
            raise UsageError(node.failure)
        return node.address

    async def end(self) -> None:
        """End Ray, and its head."""
        assert self.child.stdin is not None
        self.child.stdin.close()
        try:
            await asyncio.wait_for(self.child.wait(), END_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.child.kill()


def begin_ray(folder: Path) -> RayHead:
    """Fork a head off this process, which has not imported Ray, nor has an event loop or threads at work."""
    set_environment(spare_workers=False)
    keep_strangers_out(folder)
    child = ForkedChild.reading(folder, partial(keep_ray, folder))
    show_token()
    return RayHead(child, folder)


def keep_ray(folder: Path) -> None:
    """Be the head, in this process: keep Ray until the standard input ends."""
    name_process(NAME)
    from serving.cluster.session.ray_session import own_node, ray_in

    try:
        with ray_in(folder, spare_workers=False):
            # The head is a driver itself, the first one. Nobody else can connect before the one that serves.
            tell(folder, own_node(drivers_later=1))
            sys.stdin.read()
    except UsageError as error:
        tell(folder, RayNode(failure=str(error)))
