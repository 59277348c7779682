"""A session of Ray: one of our own that leaves nothing behind, or one that is there already."""

import contextlib
import logging
import os
import secrets
import signal
import socket
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import ray

from serving.cluster.forks import setup_worker
from serving.cluster.placement import wait_for_hosts
from serving.cluster.supervision.deaths import summary
from serving.cluster.supervision.ray_watch import RAYLET
from serving.process.run_folder import run_folder
from serving.usage_error import UsageError

REACHED_S = 5.0
OBJECT_STORE_BYTES = 100 * 2**20
# Below the run's folder. A GCS that does not come up on a busy machine does so, as a rule, at the second attempt.
FOLDERS = ("ray", "r2")
SPARE_WORKERS = "RAY_prestart_worker_first_driver"


def is_joined() -> bool:
    """Tell whether Ray is somebody else's, which may have other nodes than this one."""
    return bool(os.environ.get("RAY_ADDRESS"))


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
    with contextlib.ExitStack() as stack:
        stack.callback(ray.shutdown)
        os.environ[SPARE_WORKERS] = str(int(spare_workers))
        _start(folder, cores)
        yield


def _start(folder: Path, cores: int | None) -> None:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Calls that nobody waits for fail where an actor has died; its supervisor hears of that otherwise.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    # A call after the end is a mistake, and must not start another Ray: in other processes by this variable, which was
    # read here as Ray was imported.
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    ray._private.auto_init_hook.enable_auto_connect = False
    # Ray gives its workers the highest niceness; ours have deadlines.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # Of a worker that is killed before it has told that it is there, Ray knows only by this time (seconds; a minute by
    # default). One that waits for the fork server meanwhile loses nothing: the next one waits in its place.
    os.environ.setdefault("RAY_worker_register_timeout_seconds", "15")
    # What is forked later becomes another program, which needs nothing of gRPC that a fork would break; gRPC would say
    # each time that it could not mend it.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    # Ray's records of each call, for a dashboard that we do not start, are memory that grows.
    os.environ.setdefault("RAY_task_events_report_interval_ms", "0")
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    _keep_signals()
    if address := os.environ.get("RAY_ADDRESS"):
        _check_reachable(address)
        ray.init(**quiet)
        wait_for_hosts()
        return
    # Ray turns a loopback address that it is given into the machine's own, unless it is told (as it is on laptops that
    # would ask about their firewall) that there will be no second machine.
    ray._private.ray_constants.ENABLE_RAY_CLUSTER = False
    _start_no_watchers()
    # An absolute path, which stays as it is where Ray puts that of its own scripts before it.
    ray._private.ray_constants.SETUP_WORKER_FILENAME = setup_worker.__file__
    _keep_strangers_out(folder)
    # Ray opens its folder to everybody: our folder around it keeps others out.
    own = {"num_cpus": cores, "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    for name in FOLDERS:
        try:
            ray.init(address="local", _temp_dir=str(folder / name), **own, **quiet)
            return
        except Exception as error:  # of whatever type: a node that did not start in time is a bare `Exception` of Ray's
            ray.shutdown()
            if name == FOLDERS[-1]:
                sentence = f"Ray did not start on this machine ({summary(error)}). Is it very busy? Try again."
                raise UsageError(sentence) from error


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


def _keep_strangers_out(folder: Path) -> None:
    """Have Ray's processes ask for a token that only they can read; the one that Ray would make anybody may."""
    path = folder / "token"
    path.touch(mode=0o600)
    path.write_text(_token(), encoding="utf-8")
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)
    # A new Ray asks for tokens by default; variables that say otherwise were meant for another one.
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        os.environ.pop(name, None)


@cache
def _token() -> str:
    """Return the token of all sessions of this process, as Ray reads it but once."""
    return secrets.token_hex(32)


def _check_reachable(address: str) -> None:
    """Raise UsageError if nobody listens at an address of the form HOST:PORT, for which Ray would wait on."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), REACHED_S).close()
        except OSError as error:
            sentence = f"RAY_ADDRESS is {address}, where no Ray can be reached ({error}): start one, or unset it."
            raise UsageError(sentence) from error


def worker_environment() -> dict[str, str]:
    """Return the environment of a worker of our own Ray's, whose raylet runs on this host: Ray reads it as it is
    imported."""
    (raylet,) = ray._private.worker._global_node.all_processes[RAYLET]
    job = ray.get_runtime_context().get_job_id()
    return {**os.environ, "RAY_JOB_ID": job, "RAY_RAYLET_PID": str(raylet.process.pid)}
