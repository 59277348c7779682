"""The clocks: deadlines are absolute, a signal wakes a waiter, and lateness is told."""

import threading
import time
from collections.abc import Callable

import pytest

from serving.clock import ClockOrigin, VirtualClock, WallClock


def test_until_waits_for_the_emulated_instant_at_its_speed() -> None:
    clock = WallClock(time.time(), speed=10.0)
    lates = []
    for _ in range(5):
        began = time.monotonic()
        lates.append(clock.until(clock.now() + 0.5))
        assert time.monotonic() - began >= 0.05 - 1e-3
    # A busy machine may keep us waiting.
    assert 0 <= min(lates) < 0.05


def test_a_missed_deadline_is_told_in_real_seconds() -> None:
    clock = WallClock(time.time() - 1.0, speed=10.0)
    assert 0.5 <= clock.until(5.0) < 5


def test_processes_with_one_origin_read_one_time() -> None:
    origin = time.time() - 3.0
    assert WallClock(origin).now() == pytest.approx(WallClock(origin).now(), abs=0.01)


def test_a_signal_before_the_wait_is_not_lost() -> None:
    clock = WallClock(time.time())
    clock.signal()
    began = time.monotonic()
    clock.wait(clock.now() + 5.0)
    assert time.monotonic() - began < 2.0


def test_a_signal_from_another_thread_ends_the_wait() -> None:
    clock = WallClock(time.time())
    began = time.monotonic()
    threading.Timer(0.05, clock.signal).start()
    clock.wait(clock.now() + 5.0)
    assert 0.05 - 1e-3 < time.monotonic() - began < 2.0


def test_who_waits_looks_for_himself_now_and_then() -> None:
    clock = WallClock(time.time())
    began = time.monotonic()
    clock.wait(float("inf"))
    assert 0.2 < time.monotonic() - began < 10.0


@pytest.mark.parametrize("wait", [WallClock.until, WallClock.wait])
def test_who_is_behind_is_not_overdue_but_who_does_not_come_again(wait: Callable[[WallClock, float], object]) -> None:
    clock = WallClock(time.time() - 60.0)
    wait(clock, 1.0)
    assert clock.overdue_s < 30.0
    time.sleep(0.05)
    assert 0.05 <= clock.overdue_s < 30.0


def test_virtual_time_passes_by_waiting_only() -> None:
    clock = VirtualClock()
    assert clock.until(1e6) == 0.0
    assert clock.now() == 1e6
    clock.until(5.0)
    assert clock.now() == 1e6


def test_who_starts_after_unix_time_was_corrected_lives_in_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    origin = ClockOrigin.now(speed=1.0)
    first = WallClock(*origin)
    unix_s = time.time
    monkeypatch.setattr(time, "time", lambda: unix_s() - 5.0)
    assert WallClock(*origin).now() == pytest.approx(first.now(), abs=0.1)
    # On another host there is Unix time alone.
    assert WallClock(*origin._replace(boot="another")).now() == pytest.approx(first.now() - 5.0, abs=0.1)
