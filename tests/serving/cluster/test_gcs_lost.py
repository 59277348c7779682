"""Ray's books on a Redis: its GCS may be gone for a while, and streams do not notice."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from serving.process.server_process import server
from tests.soak.streams import SeededStreams

REDIS = shutil.which("redis-server")
GONE_S, BACK_S = 6.0, 15.0


def free_port(first: int) -> int:
    """A free one of the 500 from `first` on, which is below those that Ray gives to its workers."""
    for port in range(first, first + 500):
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError


@pytest.fixture
def ray_on_redis(tmp_path: Path) -> Iterator[str]:
    assert REDIS is not None
    redis_port, port = free_port(7000), free_port(7500)
    command = [REDIS, "--port", str(redis_port), "--save", "", "--bind", "127.0.0.1", "--dir", str(tmp_path)]
    redis = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    environment = os.environ | {"RAY_REDIS_ADDRESS": f"127.0.0.1:{redis_port}", "RAY_AUTH_MODE": "disabled"}
    # Ray leaves its session behind, and its sockets' paths are long.
    session = tempfile.mkdtemp(prefix="rg-", dir="/tmp")
    ray = ["ray", "start", "--head", f"--port={port}", "--num-cpus=2", "--include-dashboard=false"]
    ray.append(f"--temp-dir={session}")
    try:
        time.sleep(1)
        started = subprocess.run(ray, env=environment, capture_output=True, text=True, timeout=90, check=True)
        found = re.search(rf"[0-9.]+:{port}\b", started.stdout)
        assert found is not None
        yield found[0]
    finally:
        # All of its processes know the folder, and no other Ray has it.
        for each in psutil.process_iter(["cmdline"]):
            if any(session in word for word in each.info["cmdline"] or []):
                each.kill()
        redis.kill()
        shutil.rmtree(session, ignore_errors=True)


def gcs_of(address: str) -> psutil.Process:
    port = address.rpartition(":")[2]
    [found] = [
        each
        for each in psutil.process_iter(["cmdline", "name"])
        if each.info["name"] == "gcs_server" and any(port in word for word in each.info["cmdline"])
    ]
    return found


@pytest.mark.slow
@pytest.mark.skipif(REDIS is None, reason="needs redis-server: apt-get install redis-server")
@pytest.mark.timeout(300)
def test_streams_do_not_notice_that_the_gcs_is_gone_for_a_while(ray_on_redis: str) -> None:
    own = {"RAY_ADDRESS": ray_on_redis, "RAY_AUTH_MODE": "disabled"}
    with server("--devices", "2", "--token-model", "foreserve-tiny", quiet=True, environment=own) as child:
        streams = SeededStreams(child)
        with streams:
            gcs = gcs_of(ray_on_redis)
            command, environment, folder = gcs.cmdline(), gcs.environ(), gcs.cwd()
            gcs.kill()
            time.sleep(GONE_S)
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            again = subprocess.Popen(command, env=environment, cwd=folder, **quiet)
            time.sleep(BACK_S)
            assert httpx.get(f"{child.http_url}/ready").json()["ready"]
        assert streams.seen.rounds > 0 and not streams.seen.lost
        again.kill()
