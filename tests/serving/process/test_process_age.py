"""Is a process as old as the time since its program was started?"""

import subprocess
import sys
import time

import pytest

from serving.process import process_age
from serving.process.process_age import process_age_s

TELL = "import time; time.sleep(0.2); from serving.process.process_age import process_age_s; print(process_age_s())"


def test_the_age_counts_from_the_start_of_the_program() -> None:
    began_s = time.monotonic()
    told = subprocess.run([sys.executable, "-c", TELL], capture_output=True, text=True, check=True, timeout=60)
    # The kernel counts in hundredths of a second.
    assert 0.2 <= float(told.stdout) <= time.monotonic() - began_s + 0.02
    assert process_age_s() > float(told.stdout)


def test_there_is_none_where_there_is_no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def path(_: str) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(process_age, "Path", path)
    assert process_age_s() == 0.0
