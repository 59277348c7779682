"""The first fork servers: that of token sources is a fork of the server's own process, so that vLLM is imported once
for both; that of all other actors imports Ray meanwhile.

Nothing of Ray is imported here: each fork imports it anew, with settings of its own.
"""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from serving.process.forks.fork_off import ACTOR_FORKS, FORK_SERVER
from serving.process.forks.fork_server import fork_server_of
from serving.process.forks.forked_child import ForkedChild
from serving.token_source.vllm_args import on_cpu

SHARED = "serving.token_source.shared_imports"


class Preload(NamedTuple):
    """What a fork server has imported, and what it is called: `part`, where the state of all parts is told; `process`,
    where the system's processes are listed; its `socket` in the run's folder."""

    part: str
    process: str
    socket: str
    module: str

    def command(self, folder: Path) -> list[str]:
        """Return the command of such a server for the run of a `folder`, its forks as nice as this process."""
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        server = [sys.executable, "-m", "serving.process.forks.fork_server"]
        return [*server, str(folder / self.socket), self.module, str(niceness), self.process]


SOURCES = Preload("fork server", FORK_SERVER, "forks", "serving.token_source.preloaded")
"""vLLM, for token sources."""
ACTORS = Preload("actor fork server", ACTOR_FORKS, "actor-forks", "serving.cluster.forks.actor_imports")
"""Ray and the device models, for all other actors."""


def may_fork() -> bool:
    """Tell whether token sources are forks; not on GPUs, which no fork may inherit, and not with a Ray of somebody
    else's, which may start them on any node."""
    return not os.environ.get("RAY_ADDRESS") and on_cpu() and find_spec("vllm") is not None


def import_vllm() -> None:
    """Import what both a server and its token sources need of vLLM. Ray must not have been imported yet."""
    assert "ray" not in sys.modules
    import_module(SHARED)


def can_fork_off() -> bool:
    """Tell whether this process has standard streams: without them, other files may be in their place, and its forks
    would have no `sys.stdout`."""
    return None not in (sys.stdin, sys.stdout, sys.stderr)


def source_fork_server(folder: Path) -> ForkedChild:
    """Return a fork server forked off this process, which has imported vLLM, for the run of a `folder`. What token
    sources alone need it imports itself, while this process goes on."""
    return ForkedChild(fork_server_of(folder, SOURCES.socket, SOURCES.module))


def actor_fork_server(folder: Path) -> ForkedChild:
    """Start a fork server for actors other than token sources, which imports Ray with this process's environment."""
    return ForkedChild(os.posix_spawn(sys.executable, ACTORS.command(folder), os.environ, setpgroup=0))
