"""A session of Ray: one of our own that leaves nothing behind, or one that is there already."""

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import ray
from ray import JobID

from serving.cluster.placement import wait_for_hosts
from serving.cluster.session import setup_worker
from serving.cluster.session.ray_node import RayNode
from serving.cluster.session.ray_settings import is_joined, keep_strangers_out, set_environment
from serving.cluster.supervision.deaths import summary
from serving.cluster.supervision.ray_watch import RAYLET
from serving.process.run_folder import run_folder
from serving.usage_error import UsageError

REACHED_S = 5.0
OBJECT_STORE_BYTES = 100 * 2**20
# Below the run's folder. A GCS that does not come up on a busy machine does so, as a rule, at the second attempt.
FOLDERS = ("ray", "r2")
QUIET = {"logging_level": logging.ERROR, "log_to_driver": False}


@contextlib.contextmanager
def ray_session(cores: int | None = None) -> Iterator[Path]:
    """Provide Ray, as `ray_in` does, and a run's folder, while the context lasts. Raise UsageError."""
    with run_folder() as folder, ray_in(folder, cores):
        yield folder


@contextlib.contextmanager
def ray_in(folder: Path, cores: int | None = None, spare_workers: bool = True) -> Iterator[None]:
    """Start a Ray of our own on loopback, or join the one that `RAY_ADDRESS` names, for as long as the context lasts.

    `folder`: the run's, which its processes on this host share. `cores`: for a Ray of our own; None: all of this
    machine. `spare_workers`: have one for each core before there is work for it. Raise UsageError.
    """
    with disconnecting():
        set_environment(spare_workers)
        if is_joined():
            _join(os.environ["RAY_ADDRESS"])
        else:
            _start(folder, cores)
        yield


@contextlib.contextmanager
def ray_at(address: str) -> Iterator[None]:
    """Connect to a Ray of our own that another process has started on this machine, while the context lasts. The
    environment is that of `set_environment` and `keep_strangers_out` by now."""
    with disconnecting():
        _keep_to_loopback()
        ray.init(address=address, **QUIET)
        yield


def own_node(drivers_later: int = 0) -> RayNode:
    """Describe the Ray that this process has started, for a driver that connects as so many `drivers_later`."""
    context = ray.get_runtime_context()
    job = JobID.from_int(JobID(bytes.fromhex(context.get_job_id())).int() + drivers_later)
    (raylet,) = ray._private.worker._global_node.all_processes[RAYLET]
    return RayNode(context.gcs_address, job.hex(), raylet.process.pid)


@contextlib.contextmanager
def disconnecting() -> Iterator[None]:
    """End this process's part in Ray with the context, and leave signals to this process until then."""
    ray._private.auto_init_hook.enable_auto_connect = False
    _keep_signals()
    try:
        yield
    finally:
        ray.shutdown()


def _join(address: str) -> None:
    _check_reachable(address)
    ray.init(**QUIET)
    wait_for_hosts()


def _start(folder: Path, cores: int | None) -> None:
    _keep_to_loopback()
    _start_no_watchers()
    # An absolute path, which stays as it is where Ray puts that of its own scripts before it.
    ray._private.ray_constants.SETUP_WORKER_FILENAME = setup_worker.__file__
    keep_strangers_out(folder)
    # Ray opens its folder to everybody: our folder around it keeps others out.
    own = {"num_cpus": cores, "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    for name in FOLDERS:
        try:
            ray.init(address="local", _temp_dir=str(folder / name), **own, **QUIET)
            return
        except Exception as error:  # of whatever type: a node that did not start in time is a bare `Exception` of Ray's
            ray.shutdown()
            if name == FOLDERS[-1]:
                sentence = f"Ray did not start on this machine ({summary(error)}). Is it very busy? Try again."
                raise UsageError(sentence) from error


def _keep_to_loopback() -> None:
    """Have Ray keep to loopback. It turns a loopback address that it is given into the machine's own, unless it is told
    (as it is on laptops that would ask about their firewall) that there will be no second machine."""
    ray._private.ray_constants.ENABLE_RAY_CLUSTER = False


def _start_no_watchers() -> None:
    """Have Ray start no dashboard, autoscaler or reader of logs: a tenth of a start, and nobody asks for them."""
    node = ray._private.node.Node
    node.start_api_server = lambda self, **options: None
    node.start_monitor = node.start_log_monitor = lambda self: None


def _keep_signals() -> None:
    """Have Ray leave signals alone: it would end us at any of its own steps, and print where it was."""
    ray._private.ray_constants.RAY_DISABLE_FAILURE_SIGNAL_HANDLER = True
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        ray._private.utils.set_sigterm_handler = lambda handler: None


def _check_reachable(address: str) -> None:
    """Raise UsageError if nobody listens at an address of the form HOST:PORT, for which Ray would wait on."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), REACHED_S).close()
        except OSError as error:
            sentence = f"RAY_ADDRESS is {address}, where no Ray can be reached ({error}): start one, or unset it."
            raise UsageError(sentence) from error
