"""Time as an object that one waits on: real, scaled, or virtual. The engine knows no other clock."""

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

# A wait of so many real seconds at most is not interrupted: it takes 60 us of a processor, one that can be 90.
NEAR_S = 5e-2
# Who waits for news looks for himself this often: a signal may be lost with a process that was to send it. An idle
# device asks its scheduler then, which takes both of them 0.4 ms.
LOOK_S = 1.0


BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class ClockOrigin(NamedTuple):
    """The start of emulated time, in Unix seconds, and its speed: emulated seconds per real one; and the same start on
    the monotonic clock of the host that `boot` names."""

    origin_unix_s: float
    speed: float
    origin_s: float = 0.0
    boot: str = ""

    @staticmethod
    def now(speed: float) -> "ClockOrigin":
        """Return the start of a time that begins now."""
        return ClockOrigin(time.time(), speed, time.monotonic(), this_boot())


def this_boot() -> str:
    """Return the kernel's name of this host since it was started, if it has one."""
    with suppress(OSError):
        return BOOT_ID.read_text(encoding="ascii").strip()
    return ""


class Clock(Protocol):
    """Emulated seconds since the origin, `speed` of them in a real one, and how to wait for them."""

    speed: float

    def now(self) -> float:
        """Return the emulated instant."""
        ...

    def until(self, at_s: float) -> float:
        """Wait for emulated instant `at_s`; return by how many real seconds it was missed, at least 0. Less than 0 if
        it is still to come: a long wait ends now and then, and when it is interrupted."""
        ...

    def interrupt(self) -> None:
        """End the wait for an instant that is not near, from any thread; or else the next one."""
        ...

    def wait(self, at_s: float) -> None:
        """Wait for emulated instant `at_s`, or for a signal since the last `wait`; it may end sooner than either."""
        ...

    def signal(self) -> None:
        """Wake whoever waits, from any thread."""
        ...


class AutoResetEvent:
    """An event for one waiting thread, whose wait resets it. A lock: `threading.Event` costs ten times as much."""

    def __init__(self) -> None:
        self._unset = threading.Lock()
        self._unset.acquire()

    def set(self) -> None:
        """End the present wait, or else the next one."""
        with suppress(RuntimeError):  # It is set already.
            self._unset.release()

    def wait(self, most_s: float) -> None:
        """Wait until it is set, at most for so many real seconds."""
        self._unset.acquire(timeout=most_s)


class WallClock:
    """Real time, `speed` times as fast: deadlines are absolute and on the monotonic clock."""

    def __init__(self, origin_unix_s: float, speed: float = 1.0, origin_s: float = 0.0, boot: str = "") -> None:
        """`origin_unix_s` is agreed between processes; each maps it to its own monotonic clock, once. On the host of
        `boot` that is `origin_s`, though the host's idea of Unix time may have been corrected since."""
        self._origin_unix_ns = round(origin_unix_s * 1e9)
        here = bool(boot) and boot == this_boot()
        self._origin_s = origin_s if here else time.monotonic() - (time.time() - origin_unix_s)
        self.speed = speed
        self._news, self._interrupted = AutoResetEvent(), AutoResetEvent()
        self._wakes_s = time.monotonic()

    def now(self) -> float:
        return (time.monotonic() - self._origin_s) * self.speed

    def late(self, at_s: float) -> float:
        """Return the real seconds since emulated instant `at_s`; negative while it is to come."""
        return time.monotonic() - self._origin_s - at_s / self.speed

    def unix_ns(self, at_s: float) -> int:
        """Emulated instant `at_s` in nanoseconds of real time since 1970, as the other processes take it too."""
        return self._origin_unix_ns + round(at_s / self.speed * 1e9)

    def until(self, at_s: float) -> float:
        left = -self.late(at_s)
        self.note_wait(left)
        if left > NEAR_S:
            self._interrupted.wait(min(left, LOOK_S))
            left = -self.late(at_s)
            if left > NEAR_S:
                return -left
        while left > 0.0:
            time.sleep(left)
            left = -self.late(at_s)
        return -left

    def wait(self, at_s: float) -> None:
        left_s = max(0.0, min(-self.late(at_s), LOOK_S))
        self.note_wait(left_s)
        self._news.wait(left_s)

    def signal(self) -> None:
        self._news.set()

    def interrupt(self) -> None:
        self._interrupted.set()

    def note_wait(self, left_s: float) -> None:
        """Take note that whoever waits by this clock waits so many real seconds at most, be it for something else."""
        # Whoever is behind, and waits for an instant long past, is here: only who does not come again is overdue.
        self._wakes_s = time.monotonic() + max(0.0, left_s)

    @property
    def overdue_s(self) -> float:
        """For how many real seconds whoever waits by this clock has been late to do so again, or to wake."""
        return max(0.0, time.monotonic() - self._wakes_s)


class VirtualClock:
    """Time that passes only by being waited for. Its seconds are as long as real ones, to whoever asks."""

    speed = 1.0

    def __init__(self) -> None:
        self._now_s = 0.0

    def now(self) -> float:
        return self._now_s

    def until(self, at_s: float) -> float:
        self._now_s = max(self._now_s, at_s)
        return 0.0

    def interrupt(self) -> None:
        pass

    def wait(self, at_s: float) -> None:
        self.until(at_s)

    def signal(self) -> None:
        pass
