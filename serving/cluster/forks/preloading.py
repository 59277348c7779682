"""The first fork server: a fork of the server's own process, so that vLLM is imported once for both.

Nothing of Ray is imported here: each fork imports it anew, with settings of its own.
"""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from serving.process.forks.fork_server import fork_server_of
from serving.process.forks.forked_child import ForkedChild
from serving.token_source.vllm_args import on_cpu

SHARED, MODULE = "serving.token_source.shared_imports", "serving.token_source.preloaded"
SOCKET = "forks"


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


def first_fork_server(folder: Path) -> ForkedChild:
    """Return a fork server forked off this process, which has imported vLLM, for the run of a `folder`. What token
    sources alone need it imports itself, while this process goes on."""
    return ForkedChild(fork_server_of(folder, SOCKET, MODULE))
