"""Does Prometheus find a server, as long as it is there?"""

import json
from pathlib import Path
from socket import AF_INET
from types import SimpleNamespace

import psutil
import pytest
import ray

from serving.cli import discovery
from serving.cli.discovery import NAME, announced, targets
from serving.scenario.scenario import Scenario
from serving.usage_error import UsageError


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a session of Ray's."""
    folder = tmp_path / "session"
    folder.mkdir()
    node = SimpleNamespace(get_session_dir_path=lambda: str(folder))
    monkeypatch.setattr(ray._private.worker, "_global_node", node)
    return folder


def test_it_is_announced_while_it_is_up(session: Path, tmp_path: Path) -> None:
    named = tmp_path / "named.json"
    with announced(Scenario(devices=2), 8123, named):
        (group,) = json.loads(named.read_text())
        assert group["targets"] == ["127.0.0.1:8123"]
        assert group["labels"]["job"] == "foreserve"
        assert group["labels"]["__meta_foreserve_devices"].startswith("2 x elmoe3d/")
        assert (session / NAME).read_text() == named.read_text()
    assert [path.name for path in tmp_path.rglob("*")] == ["session"]


def test_a_server_that_ends_leaves_the_file_of_the_one_that_has_taken_its_place(session: Path, tmp_path: Path) -> None:
    named = tmp_path / "named.json"
    with announced(Scenario(), 8123, named):
        with announced(Scenario(), 8124, named):
            pass
        assert not named.exists()
        later = announced(Scenario(), 8125, named)
        later.__enter__()
    assert json.loads(named.read_text())[0]["targets"] == ["127.0.0.1:8125"]
    later.__exit__(None, None, None)
    assert not named.exists()


@pytest.mark.parametrize(("host", "target"), [("::1", "[::1]:80"), ("host.example", "host.example:80")])
def test_a_target_is_an_address(host: str, target: str) -> None:
    assert json.loads(targets(Scenario(host=host), 80))[0]["targets"] == [target]


def own_address() -> str:
    """One at which other machines may find this one, or loopback, if it has none."""
    found = [each.address for every in psutil.net_if_addrs().values() for each in every if each.family == AF_INET]
    return next((address for address in found if not address.startswith("127.")), "127.0.0.1")


@pytest.mark.parametrize(
    ("of_ray", "far", "told"),
    [
        # A Ray of our own, on a machine with a network and on one without; and a cluster that was joined.
        ("127.0.0.1", own_address(), own_address()),
        ("127.0.0.1", "255.255.255.255", "127.0.0.1"),
        ("10.0.0.7", own_address(), "10.0.0.7"),
    ],
)
def test_who_listens_everywhere_is_where_others_find_it(
    monkeypatch: pytest.MonkeyPatch, of_ray: str, far: str, told: str
) -> None:
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: of_ray)
    monkeypatch.setattr(discovery, "FAR", far)
    assert json.loads(targets(Scenario(host="0.0.0.0"), 80))[0]["targets"] == [f"{told}:80"]


def test_a_file_that_was_asked_for_and_cannot_be_is_an_error_and_another_is_not(session: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"--discovery-file .*nowhere.* cannot be written"),
        announced(Scenario(), 80, tmp_path / "nowhere" / "f.json"),
    ):
        pass
    session.rmdir()
    with announced(Scenario(), 80, None):
        assert not session.exists()
