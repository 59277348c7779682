"""Devices of a running server are lost, die for good, join and drain: clients get the same tokens."""

import threading

import grpc
import httpx
import pytest

from serving.api.pb.foreserve.v1 import admin_pb2, admin_pb2_grpc
from serving.process.server_process import ServerProcess
from tests.conftest import SECRET
from tests.patience import until
from tests.serving.cluster.served_devices import LONG, Served
from tests.serving.cluster.test_recovery import REQUESTS, TOKENS, processes
from tests.serving.observed_server import Observed


@pytest.fixture(scope="module")
def served(observed_emulator: Observed) -> Served:
    return Served(observed_emulator.child, observed_emulator.steps)


@pytest.fixture(scope="module")
def reference(served: Served) -> list[list[int]]:
    """What the requests get when nothing happens."""
    answers = served.ask_all()
    assert [len(answer) for answer in answers] == [LONG] * REQUESTS
    return answers


@pytest.mark.slow
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
    assert served.ask_all(tokens=TOKENS) == [answer[:TOKENS] for answer in reference]
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
    assert served.ask_all(tokens=TOKENS) == [answer[:TOKENS] for answer in reference]


@pytest.mark.slow
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
    until(lambda: all(len(processes(served.child, actor)) <= 2 for actor in ("HbXpu", "LpddrActor")))
    assert served.http.delete(f"/devices/{index}").status_code == 404
    metrics = httpx.get(f"{served.child.http_url}/metrics", timeout=60).text
    (line,) = [line for line in metrics.splitlines() if f'device{{device="{index}"' in line and 'state="gone"' in line]
    assert "elmoe3d/elmoe3d-4gb" in line and float(line.split()[-1]) == 1


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
    with httpx.Client(base_url=f"{small_emulator.http_url}/foreserve/v1", timeout=60) as nobody:
        assert nobody.get("/devices").status_code == 401
    headers = {"Authorization": f"Bearer {SECRET}"}
    with httpx.Client(base_url=f"{small_emulator.http_url}/foreserve/v1", headers=headers, timeout=60) as client:
        for answer in (client.delete("/devices/0"), client.post("/faults", json={"fault": "lost: device=0"})):
            assert answer.status_code == 409
            assert "the last one that serves" in answer.json()["error"]["message"]
        assert client.get("/devices").json()["devices"][0]["state"] == "serving"
