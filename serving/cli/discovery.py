"""Tells Prometheus where this emulator is, in a file of its file-based service discovery."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import ray

from serving.cli.announcements import written
from serving.scenario.fleet import described
from serving.scenario.scenario import Scenario, ScenarioError

NAME = "foreserve_service_discovery.json"
EVERYWHERE = ("0.0.0.0", "::", "")


def check_folder(path: Path | None, option: str) -> None:
    """Raises `ScenarioError` if a file can't be written there, before anything is started."""
    if path is not None and not os.access(path.absolute().parent, os.W_OK):
        raise ScenarioError(f"{option} {path} cannot be written: {path.absolute().parent} is no folder to write in.")


@contextlib.contextmanager
def announced(scenario: Scenario, http_port: int, named: Path | None) -> Iterator[None]:
    """There is such a file beside Ray's own, in its session's folder, for as long as the context lasts, and another
    where somebody has `named` one."""
    text = targets(scenario, http_port)
    with contextlib.ExitStack() as stack:
        if named is not None:
            try:
                stack.enter_context(written(named, text, "--discovery-file"))
            except OSError as error:
                raise ScenarioError(f"--discovery-file {named} cannot be written: {error.strerror}.") from error
        # Nobody has asked for this one: where it cannot be, as on a cluster of somebody else's, it is not.
        with contextlib.suppress(OSError):
            folder = Path(ray._private.worker._global_node.get_session_dir_path())
            stack.enter_context(written(folder / NAME, text, "Ray's own"))
        yield


def targets(scenario: Scenario, http_port: int) -> str:
    """What Prometheus reads. Labels with `__meta_` are there for relabelling only, so series do not have them."""
    host = ray.util.get_node_ip_address() if scenario.host in EVERYWHERE else scenario.host
    labels = {
        "job": "foreserve",
        # What Prometheus itself looks at; without it, it asks over HTTP.
        **({"__scheme__": "https"} if scenario.encrypted else {}),
        "__meta_foreserve_model": scenario.model,
        "__meta_foreserve_devices": described(scenario.members),
    }
    target = f"[{host}]:{http_port}" if ":" in host else f"{host}:{http_port}"
    return json.dumps([{"targets": [target], "labels": labels}], indent=2) + "\n"
