"""The processes of a fork server, among those of a server."""

import psutil

FORK_SERVER = "serving.process.fork_server"


def is_of_fork_server(process: psutil.Process) -> bool:
    """Tell whether a process is a fork server or its forker: it has the command of one, or, as a fork, its parent's
    own."""
    command = process.cmdline()
    parent = process.parent()
    return FORK_SERVER in command or (parent is not None and "serve" in command and command == parent.cmdline())
