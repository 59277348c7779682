"""Another user of the same machine: what of a running server is open to him?"""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from serving.process.server_process import ServerProcess

NOBODY = 65534
# Becomes another user, tries to connect to each socket, and to read or enter each path; tells which of them let him.
ATTEMPT = """
import json, os, socket, sys
os.setgroups([])
os.setgid(NOBODY)
os.setuid(NOBODY)
open_to_all = []
for path in json.load(sys.stdin):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        try:
            client.connect(path)
            open_to_all.append(path)
        except OSError:
            pass
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
        open_to_all.append(path)
    except OSError:
        pass
print(json.dumps(open_to_all))
"""


def sockets(emulator: ServerProcess) -> set[str]:
    """The Unix sockets in files that a server's processes have."""
    family = [psutil.Process(emulator.process.pid), *psutil.Process(emulator.process.pid).children(recursive=True)]
    found = {each.laddr for process in family for each in process.net_connections("unix")}
    return {str(path) for path in found if isinstance(path, str) and path.startswith("/")}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_gets_into_no_socket_and_no_file_of_a_run(emulator: ServerProcess) -> None:
    there = sockets(emulator)
    runs = {str(Path(*Path(path).parts[:3])) for path in there if path.startswith("/tmp/foreserve-run-")}
    assert there and runs
    inside = {str(path) for run in runs for path in Path(run).rglob("*")}
    said = json.dumps(sorted(there | runs | inside))
    command = [sys.executable, "-c", f"NOBODY = {NOBODY}\n{ATTEMPT}"]
    told = subprocess.run(command, input=said, capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == []
    # Nor has he hurt anybody by trying.
    assert httpx.get(f"{emulator.http_url}/health", trust_env=False).status_code == 200
