"""A child that is a fork, kept as one that is a command."""

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.patience import PATIENCE_S

# Not in this process: a fork of it would have its signal handlers, and hold the pipes of servers that other tests use.
BEGIN = """
import asyncio, json, os, signal, sys, uvloop
from serving.process.forks.forked_child import ForkedChild
from serving.process.kept_process import KeptProcess

def forked(code=None):
    pid = os.fork()
    if pid == 0:
        if code is None:
            signal.pause()
        os._exit(code)
    return ForkedChild(pid)
"""
ENDS = """
async def ends():
    own, terminated, killed = forked(3), forked(), forked()
    terminated.terminate()
    killed.kill()
    codes = [await each.wait() for each in (own, terminated, killed, own)]
    try:
        own.terminate()
    except ProcessLookupError:
        codes.append("gone")
    return codes
print(json.dumps({run}(ends())))
"""
FIRST = """
ends = []
async def keeping():
    first = forked()
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    kept = KeptProcess("one", command, tell_end=ends.append, first=first)
    running = asyncio.create_task(kept.run())
    while kept.pid is None:
        await asyncio.sleep(0.01)
    was, starts = kept.pid, kept.starts
    kept.kill()
    while kept.starts == starts or kept.pid is None:
        await asyncio.sleep(0.01)
    now, again = kept.pid, kept.starts
    running.cancel()
    await asyncio.wait({running})
    return {"first": first.pid, "was": was, "now": now, "starts": [starts, again], "ends": ends}
print(json.dumps(asyncio.run(keeping())))
"""
LAST = """
async def keeping():
    first = forked()
    running = asyncio.create_task(KeptProcess("one", ["true"], first=first).run())
    await asyncio.sleep(0.1)
    running.cancel()
    await asyncio.wait({running})
    return first.returncode
print(json.dumps(asyncio.run(keeping())))
"""
UNREAD = """
from serving.process.forks.fork_off import fork_off
from serving.process.run_folder import run_folder

def run():
    reader, writer = os.pipe()
    os.close(reader)
    sys.stdout = open(writer, "w")
    print("nobody reads it")

this = os.getpid()
with run_folder() as folder:
    pid = fork_off(folder, run)
    if os.getpid() != this:
        os._exit(99)
    _, status = os.waitpid(pid, 0)
print(json.dumps(os.waitstatus_to_exitcode(status)))
"""


def told(program: str) -> Any:
    """What a program prints, as JSON."""
    command = [sys.executable, "-c", BEGIN + program]
    return json.loads(subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True).stdout)


@pytest.mark.parametrize("run", ["asyncio.run", "uvloop.run"])
def test_its_exit_code_is_known_however_it_ended(run: str) -> None:
    assert told(ENDS.replace("{run}", run)) == [3, -signal.SIGTERM, -signal.SIGKILL, 3, "gone"]


def test_one_that_is_kept_is_the_first_and_the_command_comes_after_it() -> None:
    found = told(FIRST)
    assert found["was"] == found["first"] != found["now"]
    assert found["starts"] == [1, 2] and found["ends"] == [-signal.SIGKILL]


def test_one_that_is_kept_ends_with_who_keeps_it() -> None:
    assert told(LAST) == -signal.SIGTERM


def test_one_whose_last_words_nobody_reads_ends_all_the_same() -> None:
    assert told(UNREAD) == 0
