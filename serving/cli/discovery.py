"""Files by which Prometheus finds this emulator (file-based service discovery)."""

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import ray

from serving.cli.announcements import written
from serving.scenario.fleet import described
from serving.scenario.scenario import Scenario
from serving.security.access import is_loopback
from serving.usage_error import UsageError

NAME = "foreserve_service_discovery.json"
EVERYWHERE = ("0.0.0.0", "::", "")
# Of no machine, but beyond the network here (RFC 5737): nothing is sent to it.
FAR = "198.51.100.1"


@contextlib.contextmanager
def announced(scenario: Scenario, http_port: int, named: Path | None) -> Iterator[None]:
    """Keep a discovery file beside Ray's own, in its session's folder, and another at `named`, if that is given, for as
    long as the context lasts. Raise UsageError if the latter cannot be written."""
    text = targets(scenario, http_port)
    with contextlib.ExitStack() as stack:
        if named is not None:
            try:
                stack.enter_context(written(named, text, "--discovery-file"))
            except OSError as error:
                raise UsageError(f"--discovery-file {named} cannot be written: {error.strerror}.") from error
        # Nobody has asked for this one: where it cannot be written, as on somebody else's cluster, it is left out.
        with contextlib.suppress(OSError):
            folder = Path(ray._private.worker._global_node.get_session_dir_path())
            stack.enter_context(written(folder / NAME, text, "Ray's own"))
        yield


def targets(scenario: Scenario, http_port: int) -> str:
    """Return the JSON of a discovery file. Labels with `__meta_` are for relabelling only: series do not have them."""
    host = _own_address() if scenario.host in EVERYWHERE else scenario.host
    labels = {
        "job": "foreserve",
        # Prometheus's own label for the scheme: without it, it asks over HTTP.
        **({"__scheme__": "https"} if scenario.encrypted else {}),
        "__meta_foreserve_model": scenario.model,
        "__meta_foreserve_devices": described(scenario.members),
    }
    target = f"[{host}]:{http_port}" if ":" in host else f"{host}:{http_port}"
    return json.dumps([{"targets": [target], "labels": labels}], indent=2) + "\n"


def _own_address() -> str:
    """Return the address at which other machines find this one: Ray's, or, as a Ray of our own keeps to loopback, the
    one from which packets would leave; loopback, where there is no network."""
    address = str(ray.util.get_node_ip_address())
    if is_loopback(address):
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((FAR, 9))
            address = str(sock.getsockname()[0])
    return address
