"""What listens in a server that runs: may a stranger, or nonsense, get in?"""

import socket
import time
from pathlib import Path

import grpc
import httpx
import openai
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from serving.cluster.streams.wire import dial
from serving.process.server_process import ServerProcess
from tests.serving.cluster.test_recovery import ask, processes

NONSENSE = (b"\xff", b"", b"\x91\x93\xa1a", bytes(100_000))
EACH = ("device", "scheduler", "lpddr")
ACTORS = ("HbXpu", "SchedulerActor", "LpddrActor", "DeviceModelActor")
# A watchdog asks after what was dropped.
TOLD_S = 60.0


def sockets(emulator: ServerProcess) -> list[Path]:
    """The Unix sockets between the processes of a server."""
    actors = [process for kind in ACTORS for process in processes(emulator, kind)]
    family = [psutil.Process(emulator.process.pid), *actors]
    paths = {Path(each.laddr) for process in family for each in process.net_connections("unix") if each.laddr}
    return sorted(path for path in paths if path.parent.name.startswith("foreserve-run-"))


def dropped(emulator: ServerProcess) -> dict[str, float]:
    families = text_string_to_metric_families(httpx.get(f"{emulator.http_url}/metrics", timeout=60).text)
    samples = [sample for each in families if each.name == "foreserve_unreadable_messages" for sample in each.samples]
    return {sample.labels["receiver"]: sample.value for sample in samples}


@pytest.mark.slow
def test_a_byte_that_says_nothing_wedges_nobody_and_is_counted(emulator: ServerProcess, client: openai.OpenAI) -> None:
    expected = ask(client, 7, [])
    paths, before = sockets(emulator), dropped(emulator)
    names = ["edge", "model", *(f"{each}-{index}" for each in EACH for index in (0, 1))]
    assert sorted(path.name.rpartition("-")[0] for path in paths) == sorted(names)
    for path in paths:
        assert path.parent.stat().st_mode & 0o777 == 0o700
        stranger = dial(path)
        for message in NONSENSE:
            stranger.send(message)
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(str(path))
            raw.sendall(b"GET / HTTP/1.1\r\n\r\n")  # a length that nothing has
    assert ask(client, 7, []) == expected
    receivers = ["edge", "device model", *(f"{each} {index}" for each in EACH for index in (0, 1))]
    wanted = {name: before.get(name, 0.0) + len(NONSENSE) + 1 for name in receivers}
    until_s = time.monotonic() + TOLD_S
    while (after := dropped(emulator)) != wanted and time.monotonic() < until_s:
        time.sleep(0.2)
    assert after == wanted


def test_devices_have_no_port_but_that_of_ray_and_ray_knows_who_may_come(emulator: ServerProcess) -> None:
    for device in processes(emulator, "HbXpu"):
        ports = [each.laddr for each in device.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
        assert len(ports) == 1 and ports[0].ip.removeprefix("::ffff:") == "127.0.0.1"
        with grpc.insecure_channel(f"127.0.0.1:{ports[0].port}") as channel:
            call = channel.unary_unary("/ray.rpc.CoreWorkerService/KillActor")
            with pytest.raises(grpc.RpcError) as refused:
                call(b"", timeout=60)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_whatever_listens_beside_the_edge_is_on_loopback(emulator: ServerProcess) -> None:
    family = psutil.Process(emulator.process.pid).children(recursive=True)
    listening = [
        each.laddr.ip
        for process in family
        for each in process.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN and each.family in (socket.AF_INET, socket.AF_INET6)
    ]
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
