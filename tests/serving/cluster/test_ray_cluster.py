"""Devices over a Ray cluster: they spread over its nodes, and when a node dies no token is lost or repeated."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import openai
import psutil
import pytest
from ray.cluster_utils import Cluster

from serving.process.run_folder import PREFIX, place
from serving.process.server_process import ServerProcess, server
from tests.serving.cluster.test_recovery import REQUESTS, TOKENS, ask_all

GONE_S, BACK_S = 10.0, 60.0
SMALL = {"object_store_memory": 100 * 2**20}


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Cluster]:
    """Two nodes. Of the token source, which is not under test here, only the first has room for."""
    # Ray leaves its sessions behind, and its sockets' paths are long.
    with tempfile.TemporaryDirectory(prefix="rc-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        own = {"temp_dir": folder, **SMALL}
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False, **own})
        try:
            cluster.add_node(num_cpus=0, **own)
            cluster.wait_for_nodes()
            yield cluster
        finally:
            cluster.shutdown()


@pytest.fixture(scope="module", params=["1", "2"])
def spread(request: pytest.FixtureRequest, ray_cluster: Cluster) -> Iterator[ServerProcess]:
    """A server on both nodes. To edges of their own a device of another node sends its tokens by a port."""
    if len(ray_cluster.list_all_nodes()) == 1:
        ray_cluster.add_node(num_cpus=0, temp_dir=ray_cluster.head_node.get_temp_dir_path(), **SMALL)
        ray_cluster.wait_for_nodes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", ray_cluster.address)
        with server("--devices", "2", "--max-model-len", "1024", "--edges", request.param, quiet=True) as child:
            yield child


def devices_by_node(cluster: Cluster) -> dict[str, list[psutil.Process]]:
    """The devices' processes, by the node whose raylet is their parent."""
    found: dict[str, list[psutil.Process]] = {}
    for node in cluster.list_all_nodes():
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        found[node.node_id] = [each for each in raylet.children(recursive=True) if is_device(each)]
    return found


def is_device(process: psutil.Process) -> bool:
    try:
        return "ray::HbXpu" in " ".join(process.cmdline())
    except psutil.Error:  # ended a moment ago
        return False


def devices_of(cluster: Cluster) -> list[psutil.Process]:
    """The processes of all devices on any node."""
    return [each for processes in devices_by_node(cluster).values() for each in processes]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_devices_spread_over_nodes_and_requests_outlive_a_node(ray_cluster: Cluster, spread: ServerProcess) -> None:
    client = openai.OpenAI(base_url=f"{spread.http_url}/v1", api_key="none", max_retries=0)
    reference = ask_all(client)
    assert [len(answer) for answer in reference] == [TOKENS] * REQUESTS
    by_node = devices_by_node(ray_cluster)
    assert sorted(len(processes) for processes in by_node.values()) == [1, 1]
    worker = next(node for node in ray_cluster.list_all_nodes() if not node.head)

    class Node:
        """What `ask_all` kills: all of a node, as when its machine is switched off."""

        def send_signal(self, how: int) -> None:
            ray_cluster.remove_node(worker, allow_graceful=False)

    assert ask_all(client, kill=Node()) == reference  # type: ignore[arg-type]
    assert ask_all(client) == reference
    # On a busy machine its requests go on at the other device before its actors are back.
    end = time.monotonic() + BACK_S
    while (left := [len(processes) for processes in devices_by_node(ray_cluster).values()]) != [2]:
        assert time.monotonic() < end, left
        time.sleep(0.5)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_edge_that_is_killed_leaves_nothing_on_a_ray_that_is_not_its_own(
    ray_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", ray_cluster.address)
    ours = ("--devices", "2", "--token-model", "foreserve-tiny")
    for _ in range(2):
        before, others = set(place().glob(f"{PREFIX}*")), devices_of(ray_cluster)
        with server(*ours, quiet=True) as child:
            client = openai.OpenAI(base_url=f"{child.http_url}/v1", api_key="none", max_retries=0)
            assert ask_all(client)
            folders = set(place().glob(f"{PREFIX}*")) - before
            actors = [each for each in devices_of(ray_cluster) if each not in others]
            assert folders and len(actors) == 2
            # By it vLLM's processes meet, and nobody else would remove it.
            assert any(each for folder in folders for each in folder.glob("rendezvous-*"))
            child.process.kill()
            child.process.wait()
        _, alive = psutil.wait_procs(actors, timeout=GONE_S)
        assert not alive
        end = time.monotonic() + GONE_S
        while any(folder.exists() for folder in folders):
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_start_on_a_ray_that_is_not_its_own_is_ended_without_a_word(ray_cluster: Cluster) -> None:
    command = [sys.executable, "-m", "serving.cli", "serve", "--http-port", "0", "--grpc-port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    own = os.environ | {"RAY_ADDRESS": ray_cluster.address}
    process = subprocess.Popen(command, env=own, start_new_session=True, **pipes)  # type: ignore[call-overload]
    for line in process.stdout:
        if "Starting the token source" in line:
            break
    time.sleep(5)
    process.terminate()
    # Ray would say where it was, and end with an error of its own.
    assert process.wait(GONE_S) == 143 and process.stderr.read() == ""
