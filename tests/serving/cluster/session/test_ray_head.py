"""Ray's head: is its Ray one that its driver can work with, ended with it, and told of where it does not start?"""

import subprocess
import sys
from pathlib import Path

import pytest

from serving.cluster.session.ray_node import ENDED, RayNode, tell, wait_for_node
from serving.usage_error import UsageError

# A process of its own: nothing of Ray may have been imported.
DRIVER = """
import asyncio, os, sys
import psutil
from serving.cluster.session.ray_head import begin_ray
from serving.cluster.session.ray_node import wait_for_node
from serving.process.run_folder import run_folder

with run_folder() as folder:
    head = begin_ray(folder)
    assert "ray" not in sys.modules
    address = head.address()
    from serving.cluster.session.ray_session import ray_at
    import ray
    with ray_at(address):
        assert ray.get(ray.put(7)) == 7
        node = wait_for_node(folder)
        assert node.job == ray.get_runtime_context().get_job_id(), node
        assert psutil.Process(node.raylet).name() == "raylet"
        assert os.environ["RAY_AUTH_MODE"] == "token"
    family = {process: process.name() for process in psutil.Process().children(recursive=True)}
    parts = [process for process, name in family.items() if name in ("raylet", "gcs_server")]
    print(*(family[process] for process in parts))
    asyncio.run(head.end())
    print(*(family[process] for process in parts if process.is_running()))
"""


def driven(script: str) -> list[str]:
    """The lines that a script prints."""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()


def test_a_driver_works_with_the_ray_of_its_head_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    there, left = driven(DRIVER)
    assert set(there.split()) == {"raylet", "gcs_server"} and not left


FAILING = """
from serving.cluster.session import ray_session
from serving.cluster.session.ray_head import begin_ray
from serving.process.run_folder import run_folder
from serving.usage_error import UsageError

def late(*args, **kwargs):
    raise Exception("The current node timed out during startup.")

ray_session.ray.init = late
with run_folder() as folder:
    try:
        begin_ray(folder).address()
    except UsageError as error:
        print(error)
"""


def test_a_ray_that_does_not_start_is_told_of_by_who_waits_for_it() -> None:
    (said,) = driven(FAILING)
    assert said.startswith("Ray did not start on this machine (") and "timed out" in said


def test_who_waits_for_a_head_that_has_ended_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=ENDED):
        wait_for_node(tmp_path, lambda: True)


def test_what_was_told_before_the_end_counts(tmp_path: Path) -> None:
    tell(tmp_path, node := RayNode("127.0.0.1:1", "02000000", 7))
    assert wait_for_node(tmp_path, lambda: True) == node
