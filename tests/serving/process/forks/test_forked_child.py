"""A child that is a fork, kept as one that is a command."""

import asyncio
import os
import signal
import sys

import pytest
import uvloop

from serving.process.forks.forked_child import ForkedChild
from serving.process.kept_process import KeptProcess


def forked(code: int | None) -> int:
    """A fork of this process, which ends with an exit code; None: not by itself."""
    pid = os.fork()
    if pid == 0:
        if code is None:
            signal.pause()
        os._exit(code or 0)
    return pid


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_its_exit_code_is_known_however_it_ended(run: "type[object]") -> None:
    async def ends() -> list[int]:
        own, terminated, killed = ForkedChild(forked(3)), ForkedChild(forked(None)), ForkedChild(forked(None))
        terminated.terminate()
        killed.kill()
        codes = [await each.wait() for each in (own, terminated, killed)]
        # Again, with nobody there any more.
        assert await own.wait() == 3
        with pytest.raises(ProcessLookupError):
            own.terminate()
        return codes

    assert run(ends()) == [3, -signal.SIGTERM, -signal.SIGKILL]  # type: ignore[call-arg]


def test_one_that_is_kept_is_the_first_and_the_command_comes_after_it() -> None:
    ends: list[int] = []

    async def keeping() -> tuple[int | None, int | None, int]:
        first = ForkedChild(forked(None))
        kept = KeptProcess(
            "one", [sys.executable, "-c", "import time; time.sleep(60)"], tell_end=ends.append, first=first
        )
        running = asyncio.create_task(kept.run())
        while kept.pid is None:
            await asyncio.sleep(0.01)
        was = kept.pid
        assert was == first.pid and kept.starts == 1
        kept.kill()
        while kept.starts == 1 or kept.pid is None:
            await asyncio.sleep(0.01)
        now, starts = kept.pid, kept.starts
        running.cancel()
        await asyncio.wait({running})
        return was, now, starts

    was, now, starts = asyncio.run(keeping())
    assert was != now and starts == 2 and ends == [-signal.SIGKILL]


def test_one_that_is_kept_ends_with_who_keeps_it() -> None:
    first = ForkedChild(forked(None))

    async def keeping() -> None:
        running = asyncio.create_task(KeptProcess("one", ["true"], first=first).run())
        await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.wait({running})

    asyncio.run(keeping())
    assert first.returncode == -signal.SIGTERM
