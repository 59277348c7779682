"""Devices of a running server are lost, die for good, join, drain and break: clients get the same tokens."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import openai
import pytest

from serving.api.pb.foreserve.v1 import admin_pb2, admin_pb2_grpc
from serving.device.slow_tier import LEASE_S
from serving.process.server_process import ServerProcess
from serving.telemetry.step_log import read_step_log
from serving.types import StepRecord
from tests.conftest import MODEL, SECRET
from tests.serving.cluster.test_recovery import REQUESTS, TOKENS, ask, processes
from tests.serving.observed_server import Observed


class Served:
    """Two devices on one LPDDR tier, with a log of their steps."""

    def __init__(self, child: ServerProcess, log: Path) -> None:
        self.child = child
        self.log = log
        self.http = httpx.Client(base_url=f"{child.http_url}/foreserve/v1", timeout=60)
        self.openai = openai.OpenAI(base_url=f"{child.http_url}/v1", api_key="none", max_retries=0)

    def devices(self) -> dict[int, dict[str, Any]]:
        return {device["index"]: device for device in self.http.get("/devices").json()["devices"]}

    def inject(self, fault: str) -> int:
        answer = self.http.post("/faults", json={"fault": fault})
        assert answer.status_code == 200, answer.text
        return int(answer.json()["id"])

    def clear(self, fault: int) -> None:
        assert self.http.delete(f"/faults/{fault}").status_code == 200

    def ask_all(self, meanwhile: Callable[[], None] = lambda: None, requests: int = REQUESTS) -> list[list[int]]:
        """The answers to all requests at once; `meanwhile` happens when a third of the tokens is there."""
        arrived: list[int] = []
        with ThreadPoolExecutor(requests) as pool:
            answers = [pool.submit(ask, self.openai, seed, arrived) for seed in range(requests)]
            while len(arrived) < requests * TOKENS // 3:
                time.sleep(0.01)
            meanwhile()
            return [answer.result(timeout=120) for answer in answers]

    def until(self, index: int, state: str) -> None:
        deadline = time.monotonic() + 60
        while self.devices()[index]["state"] != state:
            assert time.monotonic() < deadline, self.devices()
            time.sleep(0.1)

    def decode_steps(self, since: int) -> list[StepRecord]:
        """Steps of the log from record `since` on."""
        return [step for step in read_step_log(self.log)[since:] if step.phase == "decode"]


@pytest.fixture(scope="module")
def served(observed_emulator: Observed) -> Served:
    return Served(observed_emulator.child, observed_emulator.steps)


@pytest.fixture(scope="module")
def reference(served: Served) -> list[list[int]]:
    """What the requests get when nothing happens."""
    answers = served.ask_all()
    assert [len(answer) for answer in answers] == [TOKENS] * REQUESTS
    return answers


@pytest.mark.timeout(300)
def test_requests_of_a_lost_device_go_on_elsewhere_and_it_comes_back(
    served: Served, reference: list[list[int]]
) -> None:
    faults: list[int] = []

    def lose() -> None:
        assert served.devices()[0]["requests_in_flight"] == 2
        faults.append(served.inject("lost: device=0"))
        devices = served.devices()
        assert (devices[0]["state"], devices[0]["requests_in_flight"]) == ("lost", 0)
        assert devices[1]["requests_in_flight"] == REQUESTS

    assert served.ask_all(lose) == reference
    served.clear(faults[0])
    assert served.devices()[0]["state"] == "serving"
    assert served.ask_all() == reference
    assert served.devices()[0]["faults"] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_requests_of_a_device_that_does_not_come_back_go_on_elsewhere(
    served: Served, reference: list[list[int]]
) -> None:
    victim, survivor = processes(served.child, "HbXpu")
    lost = threading.Event()

    def kill_on_sight() -> None:
        """Whatever Ray starts in its place too."""
        victim.kill()
        while not lost.wait(0.05):
            for process in processes(served.child, "HbXpu"):
                if process.pid != survivor.pid:
                    process.kill()

    killer = threading.Thread(target=kill_on_sight)
    try:
        assert served.ask_all(killer.start) == reference
        states = [device["state"] for device in served.devices().values()]
        assert "lost" in states
    finally:
        lost.set()
        killer.join()
    for index in (0, 1):
        served.until(index, "serving")
    assert served.ask_all() == reference


@pytest.mark.timeout(300)
def test_a_device_joins_takes_requests_drains_and_is_gone(served: Served, reference: list[list[int]]) -> None:
    answer = served.http.post("/devices", json={"device": "elmoe3d-4gb"})
    assert answer.status_code == 200, answer.text
    (added,) = answer.json()["devices"]
    index = added["index"]
    assert (added["state"], added["hardware"]) == ("serving", "elmoe3d-4gb")

    def drain() -> None:
        # Least loaded: of four requests on three devices, it has one at least.
        assert served.devices()[index]["requests_in_flight"] >= 1
        assert served.http.delete(f"/devices/{index}").json()["state"] == "draining"
        assert served.http.delete(f"/devices/{index}").status_code == 409

    assert served.ask_all(drain) == reference
    served.until(index, "gone")
    while any(
        len(processes(served.child, actor)) > 2 for actor in ("HbXpu", "LpddrActor")
    ):  # pytest's own limit ends it
        time.sleep(0.1)
    assert served.http.delete(f"/devices/{index}").status_code == 404
    metrics = httpx.get(f"{served.child.http_url}/metrics").text
    (line,) = [line for line in metrics.splitlines() if f'device{{device="{index}"' in line and 'state="gone"' in line]
    assert "elmoe3d/elmoe3d-4gb" in line and float(line.split()[-1]) == 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_device_that_joins_a_throttled_tier_starts_throttled(served: Served, reference: list[list[int]]) -> None:
    def added() -> int:
        answer = served.http.post("/devices", json={"device": "elmoe3d-8gb"})
        assert answer.status_code == 200, answer.text
        return int(answer.json()["devices"][0]["index"])

    def decode_s(index: int) -> float:
        """Median latency of the device's steps, while each device has one request, the least loaded the next."""
        before = len(read_step_log(served.log))
        assert sorted(served.ask_all()) == sorted(reference)
        time.sleep(0.5)
        return float(np.median([step.latency_s for step in served.decode_steps(before) if step.device == index]))

    def leave(index: int) -> None:
        served.http.delete(f"/devices/{index}")
        served.until(index, "gone")

    if (first := added()) % 2:  # It would be the last one on its tier.
        leave(first)
        first = added()
    throttled = served.inject(f"lpddr: left=0.55, device={first}")
    second = added()
    assert second == first + 1 and served.devices()[second]["faults"] == []
    with_it = decode_s(second)
    served.clear(throttled)
    assert 1.2 < with_it / decode_s(second) < 1.85
    leave(first)
    leave(second)


def seen(served: Served, fault: str) -> tuple[float, float, list[StepRecord]]:
    """Mean latency of a lone request's steps before a fault, and with it, and all of its steps."""
    time.sleep(0.5)
    before = len(read_step_log(served.log))
    marks: list[int] = []
    arrived: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, served.openai, 0, arrived)
        while len(arrived) < TOKENS // 3:
            time.sleep(0.01)
        marks.append(served.inject(fault))
        assert len(answer.result(timeout=60)) == TOKENS
    served.http.delete(f"/faults/{marks[0]}")
    time.sleep(0.5)
    steps = served.decode_steps(before)
    latencies = [step.latency_s for step in steps]
    return float(np.mean(latencies[:20])), float(np.mean(latencies[-20:])), steps


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("fault", "least", "most"),
    [
        ("lpddr: left=0.5", 1.3, 2.01),
        pytest.param("hb: left=0.5", 1.3, 4.0, marks=pytest.mark.slow),
        pytest.param("clock: left=0.5", 1.05, 2.01, marks=pytest.mark.slow),
    ],
)
def test_what_breaks_slows_the_steps_down_and_is_mended(served: Served, fault: str, least: float, most: float) -> None:
    before, after, _ = seen(served, fault)
    assert least < after / before < most
    again, _, _ = seen(served, "stall: for=0.001")
    assert again == pytest.approx(before, rel=0.02)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_stalled_device_stands_still_for_so_long(served: Served) -> None:
    _, _, steps = seen(served, "stall: for=3")
    gaps = np.diff([step.start_s for step in steps]) - [step.latency_s for step in steps[:-1]]
    # From the moment that it was told, which was within a step.
    assert 2.5 < gaps.max() < 3.1
    assert sorted(gaps)[-2] < 1.0


@pytest.mark.timeout(300)
def test_a_stall_that_is_cleared_is_over(served: Served) -> None:
    told = served.inject("stall: for=60")
    served.http.delete(f"/faults/{told}")
    began = time.monotonic()
    assert len(ask(served.openai, 0, [])) == TOKENS
    assert time.monotonic() - began < 30


@pytest.mark.timeout(300)
def test_a_step_under_way_does_not_outlive_what_slowed_it_down(served: Served) -> None:
    """A prompt of a second on a device that has a hundredth left: more than a minute, but for what is cleared."""
    told: list[int] = []
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(ask, served.openai, 0, [])
        time.sleep(0.3)
        told += [served.inject("lpddr: left=0.01"), served.inject("clock: left=0.01")]
        long = {"prompt": [5] * 900, "max_tokens": 2, "model": MODEL}
        prompt = pool.submit(served.openai.completions.create, **long)
        time.sleep(2)
        began = time.monotonic()
        for fault in told:
            served.clear(fault)
        assert len(answer.result(timeout=60)) == TOKENS
        assert prompt.result(timeout=60).usage.completion_tokens == 2
    assert time.monotonic() - began < 20


@pytest.mark.timeout(300)
def test_devices_on_one_lpddr_slow_each_other_down(served: Served) -> None:
    alone, _, _ = seen(served, "stall: for=0.001")
    before = len(read_step_log(served.log))
    served.ask_all(requests=2)
    time.sleep(0.5)
    steps = {device: [step for step in served.decode_steps(before) if step.device == device] for device in (0, 1)}
    begin = max(steps[device][0].start_s for device in (0, 1)) + 2 * LEASE_S
    end = min(steps[device][-1].start_s for device in (0, 1))
    for device in (0, 1):
        at_once = [step.latency_s for step in steps[device] if begin < step.start_s < end]
        assert 1.1 < np.median(at_once) / alone < 2.0


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("DELETE", "/devices/9", None, 404, ["There is no device 9", "0, 1"]),
        ("POST", "/devices", {"device": "0 x a"}, 400, ["`device`", "COUNT x"]),
        ("POST", "/devices", {"device": "elmoe3d-5tb"}, 400, ["elmoe3d-5tb", "elmoe3d-8gb"]),
        ("POST", "/devices", {"device": "elmoe3d-4gb", "count": 2}, 400, ["the one field `device`"]),
        ("POST", "/devices", ["elmoe3d-4gb"], 400, ["the one field `device`"]),
        ("POST", "/faults", {"fault": 5}, 400, ["the one field `fault`"]),
        ("POST", "/faults", {"fault": "fire"}, 400, ["`fault`", "stall"]),
        ("POST", "/faults", {"fault": "hb: left=0.01"}, 400, ["hb_share", "one bank"]),
        ("POST", "/faults", {"fault": "hb: left=0.001"}, 400, ["`fault`", "at least 0.01"]),
        ("POST", "/faults", {"fault": "mono3d: left=0.5"}, 400, ["no memory tier 'mono3d'", "hb", "lpddr"]),
        ("POST", "/faults", {"fault": "lpddr: left=1e-8"}, 400, ["`fault`", "at least 0.01"]),
        ("POST", "/faults", {"fault": "lost: device=9"}, 404, ["There is no device 9"]),
        ("DELETE", "/faults/99", None, 404, ["There is no fault 99", "none"]),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence_and_changes_nothing(
    served: Served, method: str, path: str, body: object, status: int, said: list[str]
) -> None:
    before = served.devices()
    answer = served.http.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    message = answer.json()["error"]["message"]
    assert all(word in message for word in said) and message.endswith("."), message
    assert "Traceback" not in message
    assert served.devices() == before
    assert served.http.get("/faults").json() == {"faults": []}


def test_grpc_says_the_same(served: Served) -> None:
    with grpc.insecure_channel(served.child.grpc_url.removeprefix("grpc://")) as channel:
        admin = admin_pb2_grpc.AdminStub(channel)
        listed = admin.ListDevices(admin_pb2.ListDevicesRequest()).devices
        assert [device.state for device in listed[:2]] == ["serving"] * 2
        fault = admin.InjectFault(admin_pb2.InjectFaultRequest(fault="clock: left=0.5, device=1"))
        assert list(fault.active_on) == [1]
        assert [each.id for each in admin.ListFaults(admin_pb2.ListFaultsRequest()).faults] == [fault.id]
        admin.ClearFault(admin_pb2.ClearFaultRequest(id=fault.id))
        for call, code in (
            (lambda: admin.DrainDevice(admin_pb2.DrainDeviceRequest(index=9)), grpc.StatusCode.NOT_FOUND),
            (lambda: admin.AddDevices(admin_pb2.AddDevicesRequest(device="/")), grpc.StatusCode.INVALID_ARGUMENT),
            (lambda: admin.AddDevices(admin_pb2.AddDevicesRequest()), grpc.StatusCode.INVALID_ARGUMENT),
            (lambda: admin.DrainDevice(admin_pb2.DrainDeviceRequest()), grpc.StatusCode.INVALID_ARGUMENT),
            (lambda: admin.ClearFault(admin_pb2.ClearFaultRequest()), grpc.StatusCode.INVALID_ARGUMENT),
            (
                lambda: admin.InjectFault(admin_pb2.InjectFaultRequest(fault="lpddr: left=1e-8")),
                grpc.StatusCode.INVALID_ARGUMENT,
            ),
        ):
            with pytest.raises(grpc.RpcError) as refused:
                call()
            assert refused.value.code() is code


@pytest.mark.timeout(300)
def test_the_last_device_is_neither_lost_nor_drained_and_a_key_is_asked_for(small_emulator: ServerProcess) -> None:
    url = f"{small_emulator.http_url}/foreserve/v1"
    assert httpx.get(f"{url}/devices").status_code == 401
    headers = {"Authorization": f"Bearer {SECRET}"}
    for answer in (
        httpx.delete(f"{url}/devices/0", headers=headers),
        httpx.post(f"{url}/faults", json={"fault": "lost: device=0"}, headers=headers),
    ):
        assert answer.status_code == 409
        assert "the last one that serves" in answer.json()["error"]["message"]
    assert httpx.get(f"{url}/devices", headers=headers).json()["devices"][0]["state"] == "serving"
