"""Is the engine core's thread as urgent as the devices, and nothing that it begins?"""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from serving.process.process_priority import become_realtime_alone, may_be_realtime

CHILD = "import os; print(os.sched_getscheduler(0))"


@pytest.mark.skipif(not may_be_realtime(), reason="this machine grants no real-time priority")
def test_a_thread_becomes_realtime_but_not_the_threads_and_processes_that_it_begins() -> None:
    def policies() -> list[int]:
        become_realtime_alone()
        begun: list[int] = []
        thread = threading.Thread(target=lambda: begun.append(os.sched_getscheduler(0)))
        thread.start()
        thread.join()
        child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, check=True)
        return [os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK, *begun, int(child.stdout)]

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(policies).result() == [os.SCHED_FIFO, os.SCHED_OTHER, os.SCHED_OTHER]
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
