"""Shutdown of a server: by Ctrl-C, by SIGTERM, or with the process that started it."""

import asyncio
import contextlib
import os
import signal
import threading
from types import FrameType

from serving.process.run_folder import abandon

POLITE = (signal.SIGINT, signal.SIGTERM)
# What takes longer to stop is not waited for.
STOP_S = 15.0
STUCK = 1
LOST = os.EX_TEMPFAIL
"""The exit code after Ray was lost: another start may work."""
LIFELINE = "FORESERVE_LIFELINE"
"""The variable with the descriptor of a pipe that ends with the process that has started this one."""


def end_at_once_when_told() -> None:
    """From now on, until the server is up: a start is not ended step by step, as it may be anywhere."""
    for number in POLITE:
        signal.signal(number, _end)
    _hear_at_once()
    _watch_starter()


async def until_told(lost: "asyncio.Future[str]") -> str:
    """Return once the server is to stop, with the reason if it has `lost` what it needs; if that takes too long, or is
    said again, it ends at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in POLITE:
        loop.add_signal_handler(number, stop.set)
    lost.add_done_callback(lambda _: stop.set())
    await stop.wait()
    for number in POLITE:
        loop.remove_signal_handler(number)
        signal.signal(number, _end)
    why = lost.result() if lost.done() else ""
    end_soon(LOST if why else STUCK)
    return why


def end_soon(code: int) -> None:
    """End this process with an exit code in `STOP_S`, unless it has ended by then."""
    timer = threading.Timer(STOP_S, abandon, [code])
    timer.daemon = True
    timer.start()


def _end(number: int, frame: FrameType | None) -> None:
    abandon(128 + number)


def _hear_at_once() -> None:
    """Have a thread hear of signals, too: the main one handles them between two instructions of Python, so it may be in
    a long call, or have begun to wait just after it last looked."""
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    # A fork would tell this process of its own.
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    threading.Thread(target=_hear, args=[heard], daemon=True).start()


def _hear(heard: int) -> None:
    while numbers := os.read(heard, 1):
        if numbers[0] in POLITE:
            _end(numbers[0], None)


def _watch_starter() -> None:
    """Stop when whoever has started this process has ended, if he gave it a pipe to know by."""
    descriptor = os.environ.pop(LIFELINE, "")
    if descriptor.isdigit():
        threading.Thread(target=_outlive, args=[int(descriptor)], daemon=True).start()


def _outlive(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(descriptor, 4096):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
