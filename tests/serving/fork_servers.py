"""The processes of a fork server, among those of a server."""

import os

import psutil

FORK_SERVER = "serving.process.fork_server"


def is_of_fork_server(process: psutil.Process) -> bool:
    """Tell whether a process is a fork server or its forker: it has the command of one, or, as a fork of who has
    started it, the command and the session of its parent."""
    command, parent = process.cmdline(), process.parent()
    if FORK_SERVER in command:
        return True
    is_fork = parent is not None and command == parent.cmdline()
    return is_fork and os.getsid(process.pid) == os.getsid(parent.pid)
