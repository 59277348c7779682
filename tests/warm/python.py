"""A Python with vLLM imported, which forks servers off for the process that has started it.

    python -m tests.warm.python DESCRIPTOR

DESCRIPTOR: a Unix socket of packets, at which it is asked; it ends with whoever has the other end.
"""

import fcntl
import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
from importlib import import_module
from typing import Any

from serving.cluster.forks.preloading import SOURCES
from serving.cluster.session.ray_settings import set_environment
from serving.process.forks.forker import exiting
from serving.scenario.scenario import Scenario
from serving.token_source.vllm_args import prepare_environment

# File, connection, and the files of a server.
MOST_FILES = 16
LONGEST_BYTES = 2**22
# Above all numbers of files that a server is given.
FREE = 500


def main() -> None:
    """Fork servers off until nobody can ask any more."""
    asking = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()
    prepare_environment(Scenario().token_model)
    # gRPC reads some of it as it is imported.
    set_environment()
    import_module(SOURCES.module)
    gc.freeze()
    gc.enable()
    children: dict[int, tuple[int, socket.socket]] = {}
    while True:
        ready, _, _ = select.select([asking, *children], [], [])
        for file in set(ready) & set(children):
            pid, connection = children.pop(file)
            with connection:
                connection.send(json.dumps(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
            os.close(file)
        if asking in ready:
            said, files, _, _ = socket.recv_fds(asking, 1, MOST_FILES)
            if not said:
                return
            program, connection = files[0], socket.socket(fileno=files[1])
            wanted = json.loads(os.pread(program, LONGEST_BYTES, 0))
            os.close(program)
            if (pid := os.fork()) == 0:
                serve(wanted, files[2:])
            connection.send(json.dumps(pid).encode())
            children[os.pidfd_open(pid)] = pid, connection
            for each in files[2:]:
                os.close(each)


def serve(wanted: dict[str, Any], files: list[int]) -> None:
    """Be a server in this process, a fork, with the numbers for its files, environment and folder that are wanted."""
    with exiting():
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        have_files(wanted["numbers"], files)
        os.chdir(wanted["folder"])
        os.environ.clear()
        os.environ.update(wanted["environment"])
        sys.argv[:] = sys.orig_argv[:] = ["-m", *wanted["arguments"]]
        runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)


def have_files(numbers: list[int], files: list[int]) -> None:
    """Have files under the numbers that they had where they come from, and no others."""
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, FREE) for file in files]
    os.closerange(3, FREE)
    for number, file in zip(numbers, moved, strict=True):
        os.dup2(file, number, inheritable=number < 3)
    os.closerange(FREE, FREE + MOST_FILES + len(files))


if __name__ == "__main__":
    main()
