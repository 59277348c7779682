"""A process that has imported what takes long, and keeps a fork of itself, the forker, which forks for who asks.

    python -m serving.process.forks.fork_server SOCKET MODULE NICENESS NAME

Or it is a fork of a process that has imported that itself (`fork_server_of`). It ends with whoever has started it.
`forked_python` asks for forks at the Unix socket, even before the module is
imported. A forker that dies, or is stopped, is replaced at once; if this process dies, its forker goes on until another
fork server has imported the module, and takes the socket over.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

from serving.process.forks.fork_off import FORK_SERVER, fork_off, name_process
from serving.process.forks.forker import BACKLOG, STREAMS, forking
from serving.process.peer import Peer

LOOK_S = 0.2
# Between two forkers: one that ends at once must not keep a processor busy.
PAUSE_S = 0.05


def main() -> None:
    """Keep a forker until whoever has started this process ends."""
    have_standard_streams()
    address, module, niceness, name = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    be_a_server(name)
    # Whoever keeps it may have become more urgent than its forks should be.
    os.setpriority(os.PRIO_PROCESS, 0, niceness)
    keeper = Peer(os.getppid())
    predecessor = Peer.listening(str(address))
    if predecessor is None:
        # Who asks from now on waits for the module, rather than import it beside this process.
        listener = listening(address)
        preload(module)
    else:
        preload(module)
        listener = listening(address)
        predecessor.kill()
        predecessor.close()
    keep(listener, keeper)


def fork_server_of(folder: Path, socket_name: str, module: str) -> int:
    """Fork a fork server off this process, its keeper, with what that has imported, and a module more; return its
    process ID. Its socket is in the `folder` of the keeper's run."""
    with listening(folder / socket_name) as listener:
        keeper = Peer(os.getpid())
        pid = fork_off(folder, partial(go_on, listener, keeper, module), (listener, keeper))
        keeper.close()
    return pid


def go_on(listener: socket.socket, keeper: Peer, module: str) -> None:
    """Be the fork server in this process, a fork of its keeper."""
    be_a_server(FORK_SERVER)
    preload(module)
    keep(listener, keeper)


def be_a_server(name: str) -> None:
    """Be known by a name as a fork server, which its keeper ends; Ctrl-C is for that one."""
    name_process(name)
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def end(number: int, frame: FrameType | None) -> NoReturn:
    """End this process, and its forker with it."""
    sys.exit()


def have_standard_streams() -> None:
    """Start anew with what was closed of standard input, output and error: other files would have their numbers, and
    forks no `sys.stdout`."""
    closed = [number for number in range(STREAMS) if not Path(f"/proc/self/fd/{number}").exists()]
    for _ in closed:
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if closed:
        os.execv(sys.executable, sys.orig_argv)


def listening(address: Path) -> socket.socket:
    """Return a socket that listens at an address in the place of any other."""
    listener, own = socket.socket(socket.AF_UNIX), address.with_name(f"{address.name}-{os.getpid()}")
    listener.bind(str(own))
    listener.listen(BACKLOG)
    own.rename(address)
    return listener


def preload(module: str) -> None:
    """Import a module, and keep what is there from then on out of the garbage collector's way: else it would be copied
    to each fork."""
    gc.disable()
    importlib.import_module(module)
    gc.collect()
    gc.freeze()
    gc.enable()


def keep(listener: socket.socket, keeper: Peer) -> None:
    """Keep a forker for as long as the keeper of this process lives."""
    server = Peer(os.getpid())
    while not keeper.ended():
        # Whoever ends this process ends the forker too, however young it is.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        pid = os.fork()
        if pid == 0:
            forking(listener, server, keeper)
        forker = Peer(pid)
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            while not select.select([keeper, forker], [], [], LOOK_S)[0]:
                if forker.is_stopped_for_long():
                    forker.kill()
        finally:
            forker.kill()
            os.waitpid(pid, 0)
            forker.close()
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
