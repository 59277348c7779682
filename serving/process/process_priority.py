"""Process priorities on a machine with too few cores: devices and the engine core first, then other edges, then the
token source.

The engine core is no less urgent than the devices: with few sequences each they have many short steps, and where these
leave it too little of the processor it hands on requests so slowly that the batches stay small, and the steps short.
"""

import contextlib
import ctypes
import gc
import os
import threading

# Beyond this speed there are no deadlines to meet, and a real-time thread would only keep others from the processor.
MAX_REALTIME_SPEED = 20.0
URGENT_NICENESS = -10
GC_THRESHOLDS = (50_000, 20, 20)
PR_SET_TIMERSLACK = 29  # linux/prctl.h


def defer_garbage() -> None:
    """Leave garbage alone until `settle`: in a start it takes a fifth of the time, and there is little."""
    gc.disable()


def set_heap_aside() -> None:
    """Take all objects that are there out of the garbage collector's sight, with what garbage is among them."""
    gc.freeze()


def settle() -> None:
    """Keep the garbage collector out of the way: what is there now stays, and what comes and goes makes few cycles."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def become_realtime(thread: int = 0) -> None:
    """Real-time priority for a thread (0: the calling one), where the process may have it."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))


def become_realtime_alone() -> None:
    """Real-time priority for the calling thread, where it may have it, and not for threads and processes that it
    begins."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def wake_on_time() -> None:
    """Have the kernel wake the calling thread when its waits are over, not up to 50 us later: its timer slack.

    Threads with real-time priority have none.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)


def become_urgent(realtime: bool = False) -> None:
    """Take a higher priority than the token source has, for all threads of this process, where it may have it.

    `realtime`: real-time priority, for what does little and is waited for by a device.
    """
    for thread in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, URGENT_NICENESS)
        if realtime:
            become_realtime(thread)


def may_be_realtime() -> bool:
    """Tell whether this machine grants real-time priority; tried on a thread that ends at once."""
    granted: list[bool] = []

    def attempt() -> None:
        become_realtime()
        granted.append(os.sched_getscheduler(0) == os.SCHED_FIFO)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return granted[0]
