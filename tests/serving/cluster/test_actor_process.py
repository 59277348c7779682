"""Is a process that gets no processor told from one that wants none?"""

import os
import subprocess
import time
from collections.abc import Iterator

import psutil
import pytest

from serving.cluster import actor_process
from serving.cluster.actor_process import ActorProcess
from tests.patience import PATIENCE_S

SPIN = ["sh", "-c", "while :; do :; done"]


@pytest.fixture(autouse=True)
def one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor_process, "this_node", lambda: "here")


@pytest.fixture
def starved() -> Iterator[int]:
    """A process that would compute, on a core that another one has for itself."""
    core = min(os.sched_getaffinity(0))

    def keep_to_core() -> None:
        os.sched_setaffinity(0, {core})

    def get_what_is_left() -> None:
        keep_to_core()
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    greedy = subprocess.Popen(SPIN, preexec_fn=keep_to_core)
    child = subprocess.Popen(SPIN, preexec_fn=get_what_is_left)
    yield child.pid
    for each in (greedy, child):
        each.kill()
        each.wait()


@pytest.mark.slow
def test_who_waits_for_a_processor_is_not_stuck(starved: int) -> None:
    process, began_s = ActorProcess("here", starved), time.monotonic()
    while (runnable_s := process.runnable_s() or 0.0) < 2.0:
        assert time.monotonic() - began_s < PATIENCE_S
        time.sleep(0.1)
    times = psutil.Process(starved).cpu_times()
    assert times.user + times.system < 0.5 * runnable_s


def test_who_sleeps_has_no_seconds_and_others_are_not_known() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        time.sleep(1.0)
        assert ActorProcess("here", child.pid).runnable_s() == pytest.approx(0.0, abs=0.1)
        assert ActorProcess("elsewhere", child.pid).runnable_s() is None
        child.kill()
    assert ActorProcess("here", child.pid).runnable_s() is None
