"""Is work for which nobody waits kept, told of where it fails, and begun again where it never ends?"""

import asyncio

import pytest

from serving.process import background
from serving.process.background import BackgroundTasks


def test_errors_are_told_but_for_those_that_are_expected(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(error: Exception) -> None:
        raise error

    async def play() -> None:
        tasks = BackgroundTasks(ConnectionError)
        for error in (ConnectionResetError("has gone"), ValueError("no number")):
            await asyncio.wait([tasks.start(fail(error))])
        assert not tasks._tasks

    asyncio.run(play())
    assert "no number" in caplog.text and "has gone" not in caplog.text


def test_what_never_ends_begins_again_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "AGAIN_S", 0.0)
    begun, works = [0], asyncio.Event()

    async def work() -> None:
        begun[0] += 1
        if begun[0] < 3:
            raise ValueError("no number")
        works.set()
        await asyncio.Event().wait()

    async def play() -> None:
        tasks = BackgroundTasks()
        tasks.keep_up(work)
        async with asyncio.timeout(5.0):
            await works.wait()
        tasks.stop()
        while tasks._tasks:
            await asyncio.sleep(0)

    asyncio.run(play())
    assert begun == [3] and caplog.text.count("it begins again") == 2
