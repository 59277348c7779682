"""A Python that runs a program in a fork of a process that has imported what takes long (`fork_server`).

    python forked_python.py SOCKET PROGRAM ...

If there is no such process, this one runs the program itself, and imports all anew. Nothing here but the standard
library, so that it starts at once.
"""

import contextlib
import json
import os
import socket
import sys
import time

ASK = b"+"
"""What asks for a fork; with it go standard input, output and error, and a file that holds the program as JSON."""
# Real seconds for an answer: the server may have to import vLLM first, on a busy machine.
PATIENCE_S = 60.0
PAUSE_S = 0.1


def main() -> None:
    """Run the program: in a fork, and then end; or here."""
    address, *arguments = sys.argv[1:]
    end_s = time.monotonic() + PATIENCE_S
    with contextlib.suppress(OSError):
        while (left_s := end_s - time.monotonic()) > 0:
            if is_forked(address, arguments, left_s):
                return
            time.sleep(PAUSE_S)
    os.execv(sys.executable, [sys.executable, *arguments])


def is_forked(address: str, arguments: list[str], timeout_s: float) -> bool:
    """Tell whether a fork runs the program; if whoever forks has ended meanwhile, another one may take its place. Raise
    OSError if nobody listens."""
    program = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(timeout_s)
        server.connect(address)
        # A file, not the socket: that one would hold only so much of it while the server is stopped.
        with contextlib.suppress(OSError), open(os.memfd_create("program"), "wb") as file:
            file.write(json.dumps(program).encode())
            file.flush()
            socket.send_fds(server, [ASK], [0, 1, 2, file.fileno()])
            if server.recv(1):
                server.sendall(b"!")
                return True
    return False


if __name__ == "__main__":
    main()
