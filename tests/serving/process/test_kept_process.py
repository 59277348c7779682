"""Processes that are kept: started again when they end, later and later if they end soon."""

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

import psutil
import pytest
import uvloop

from serving.process.backoff import FREE_RESTARTS, GIVEN_UP, MOST_S, MOST_SOUGHT, STEADY_S, Backoff
from serving.process.kept_process import KeptProcess


def test_restarts_wait_longer_and_longer_and_begin_anew_after_a_steady_time() -> None:
    backoff, now_s, waits = Backoff(), 1000.0, list[float]()
    for _ in range(20):
        waits.append(backoff.failed(now_s))
        now_s += waits[-1] + 1.0
    assert waits[:FREE_RESTARTS] == [0.0] * FREE_RESTARTS
    assert waits == sorted(waits) and waits[FREE_RESTARTS] > 0 and waits[-1] == MOST_S
    assert backoff.given_up and waits[GIVEN_UP - 1] < MOST_S
    backoff.came_up(now_s)
    assert backoff.failed(now_s + STEADY_S / 2) == MOST_S
    backoff.came_up(now_s)
    assert backoff.failed(now_s + STEADY_S) == 0.0 and not backoff.given_up


def test_who_kills_a_part_that_works_again_and_again_never_has_anybody_wait() -> None:
    backoff = Backoff()
    for now_s in range(0, 10 * GIVEN_UP, 3):
        assert backoff.failed(now_s) == 0.0
        backoff.came_up(now_s + 1)
    assert not backoff.given_up


def test_failures_while_their_cause_is_sought_count_for_none_up_to_a_limit() -> None:
    backoff = Backoff()
    assert [backoff.failed(0.0, is_sought=True) for _ in range(MOST_SOUGHT)] == [0.0] * MOST_SOUGHT
    assert backoff.failures == 0
    waits = [backoff.failed(0.0, is_sought=True) for _ in range(GIVEN_UP)]
    assert backoff.given_up and waits == [Backoff(failures=done).failed(0.0) for done in range(GIVEN_UP)]
    backoff.came_up(0.0)
    assert backoff.failed(STEADY_S, is_sought=True) == 0.0 and backoff.failures == 0 and backoff.sought == 1


def test_what_fails_for_weeks_is_still_tried() -> None:
    backoff = Backoff()
    assert [backoff.failed(0.0) for _ in range(5000)][-1] == MOST_S


async def run_for(kept: KeptProcess, seconds: float) -> None:
    """Keep a process for some real seconds."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(kept.run(), seconds)


@pytest.mark.slow
def test_what_ends_at_once_is_started_a_few_times_only(caplog: pytest.LogCaptureFixture) -> None:
    codes: list[int] = []
    kept = KeptProcess("It", [sys.executable, "-S", "-c", "raise SystemExit(3)"], tell_end=codes.append)
    asyncio.run(run_for(kept, 5.0))
    # Four starts without a wait, then 0.5, 1, 2 and 4 s later.
    assert FREE_RESTARTS + 1 < kept.starts <= FREE_RESTARTS + 4
    assert codes == [3] * len(codes) and len(codes) >= FREE_RESTARTS + 1
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "It ended with exit code 3; it starts again at once."
    assert said[FREE_RESTARTS] == "It ended with exit code 3; it starts again in 0.5 s."


def test_what_is_killed_is_replaced_at_once_and_ends_with_its_keeper() -> None:
    async def killed() -> int:
        kept = KeptProcess("It", [sys.executable, "-S", "-c", "import time; time.sleep(600)"])
        running = asyncio.create_task(kept.run())
        while kept.pid is None:
            await asyncio.sleep(0.01)
        first = kept.pid
        kept.kill()
        async with asyncio.timeout(60):
            while kept.pid in (None, first):
                await asyncio.sleep(0.01)
        last = kept.pid
        assert last is not None
        # Out of the reach of Ctrl-C, and in the same session.
        assert os.getpgid(last) == last and os.getsid(last) == os.getsid(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return last

    # The loop that a server runs on.
    assert not psutil.pid_exists(uvloop.run(killed()))


def test_what_is_killed_before_it_is_given_anything_is_replaced() -> None:
    async def killed() -> None:
        command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
        kept = KeptProcess("It", command, given=b"a scenario")
        before = set(psutil.Process().children())
        running = asyncio.create_task(kept.run())
        # The process is there, and this loop, as one that imports, has not got on.
        while not (started := set(psutil.Process().children()) - before):
            await asyncio.sleep(0)
        for process in started:
            process.kill()
            # To wait for it would take its end from the loop.
            while process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.01)
        while kept.starts < 2:
            assert not running.done()
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    uvloop.run(killed())


def test_a_start_that_fails_later_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    command = tmp_path / "command"

    def write() -> None:
        command.write_text("#!/bin/sh\nexec sleep 0.2\n")
        command.chmod(0o700)

    async def lost_and_found() -> int:
        kept = KeptProcess("It", [str(command)])
        running = asyncio.create_task(kept.run())
        while not kept.starts:
            await asyncio.sleep(0.01)
        command.unlink()
        while "could not be started again" not in caplog.text:
            await asyncio.sleep(0.01)
        before = kept.starts
        write()
        while kept.starts == before:
            await asyncio.sleep(0.01)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return kept.starts - before

    write()
    assert asyncio.run(asyncio.wait_for(lost_and_found(), 20.0)) == 1


def test_a_command_that_there_is_not_is_no_process_to_keep() -> None:
    with pytest.raises(FileNotFoundError):
        asyncio.run(run_for(KeptProcess("It", ["/no/such/command"]), 5.0))
