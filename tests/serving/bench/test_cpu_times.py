"""Is the processor time of each kind of a server's processes known?"""

import subprocess
import sys

import psutil

from serving.bench.cpu_times import ACTORS, CLIENT, EDGE, cpu_times, seconds
from serving.process.server_process import ServerProcess


def test_each_kind_of_process_is_found(emulator: ServerProcess) -> None:
    taken = cpu_times(emulator)
    assert taken.keys() == {CLIENT, EDGE, *ACTORS.values()}
    assert all(seconds >= 0 for seconds in taken.values()) and taken["device_model"] and taken["source"]


def test_the_time_of_another_process_is_that_of_the_system_s_books_and_finer() -> None:
    code = "import time\nwhile time.process_time() < 0.2: pass\nprint(time.process_time(), flush=True)\ninput()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    spent_s = float(child.stdout.readline())
    seen_s, times = seconds(psutil.Process(child.pid)), psutil.Process(child.pid).cpu_times()
    child.communicate("\n", timeout=10)
    assert spent_s <= seen_s < spent_s + 0.1
    assert abs(seen_s - (times.user + times.system)) < 0.03
