"""A Python that runs a program in a fork of a process that has imported what takes long (`fork_server`).

    python forked_python.py SOCKET PROGRAM ...

If that process does not answer, this one runs the program itself, and imports all anew. Nothing here but the standard
library, so that it starts at once.
"""

import contextlib
import json
import os
import select
import socket
import struct
import sys
import time
from pathlib import Path

ASK = b"+"
"""What asks for a fork; with it go standard input, output and error, and a file that holds the program as JSON."""
# Real seconds for the server to answer: it may have to import vLLM first, on a busy machine.
PATIENCE_S = 60.0
LOOK_S = 0.2


def main() -> None:
    """Run the program: in a fork, and then end; or here."""
    address, *arguments = sys.argv[1:]
    if not is_forked(address, arguments):
        os.execv(sys.executable, [sys.executable, *arguments])


def is_forked(address: str, arguments: list[str]) -> bool:
    """Tell whether a fork runs the program."""
    program = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as server:
        server.settimeout(PATIENCE_S)
        server.connect(address)
        # A file, not the socket: that one would hold only so much of it while the server is stopped.
        with open(os.memfd_create("program"), "wb") as file:
            file.write(json.dumps(program).encode())
            file.flush()
            socket.send_fds(server, [ASK], [0, 1, 2, file.fileno()])
        if is_answered(server) and server.recv(1):
            server.sendall(b"!")
            return True
    return False


def is_answered(server: socket.socket) -> bool:
    """Wait for an answer; tell whether there is one, or an end."""
    end_s = time.monotonic() + PATIENCE_S
    while not select.select([server], [], [], LOOK_S)[0]:
        if is_stopped(server) or time.monotonic() > end_s:
            return False
    return True


def is_stopped(server: socket.socket) -> bool:
    """Tell whether somebody has stopped the server's process."""
    pid, _, _ = struct.unpack("3i", server.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] in b"Tt"
    return True


if __name__ == "__main__":
    main()
