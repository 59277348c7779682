"""Do tables leave no thread behind that holds them? One that Python's end meets there ends the process by SIGABRT."""

import subprocess
import sys

SCRIPT = """
from pathlib import Path
from serving.study.tables import Rows, column, table

def threads():
    names = [(each / "comm").read_text().strip() for each in Path("/proc/self/task").iterdir()]
    return len([name for name in names if not name.startswith("jemalloc")])

rows = Rows({"request": "str", "tokens": "int"})
rows.add(("a", 3))
file, before = rows.close(), threads()
assert column(file, "tokens").tolist() == [3] and table(file).num_columns == 2
print(threads() - before)
"""


def test_a_table_is_read_by_no_thread_of_arrows() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
